#include "serve/pages.hpp"

namespace nsys_explain::serve {

const char* const style_sheet = R"css(
:root { color-scheme: light dark; --page: #fff; --raised: #f6f7f9; --line: #d9dde3; --text: #1b1f24; --muted: #57606a;
  --link: #0b5cad; --bad: #b42318; --warn: #8a5a00; --good: #1a7f45; }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --raised: #1d2127; --line: #363c45; --text: #e6e9ed;
  --muted: #a3acb8; --link: #6cb0f5; --bad: #ff8a7a; --warn: #e8b64c; --good: #6fd08c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1rem; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: .5rem 0 1rem; } h2 { font-size: 1.1rem; margin: 1.5rem 0 .5rem; }
a { color: var(--link); } .muted { color: var(--muted); }
table { width: 100%; border-collapse: collapse; } th { text-align: left; color: var(--muted); font-weight: 600; }
th { white-space: nowrap; } label { white-space: nowrap; } form.upload label { white-space: normal; }
#jobs td:first-child { white-space: nowrap; }
th, td { padding: .45rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th.pick, td.pick { width: 5.5rem; text-align: center; } td.number, th.number { text-align: right; white-space: nowrap; }
td.date { white-space: nowrap; } td:first-child { min-width: 7rem; }
.high, .problem { color: var(--bad); font-weight: 600; } .medium { color: var(--warn); font-weight: 600; }
.verdict { font-size: 1.1rem; font-weight: 400; padding: .8rem 1rem; background: var(--raised); border-left: 4px solid var(--link); }
.verdict.high, .verdict.medium { color: inherit; font-weight: 400; } .verdict.high { border-color: var(--bad); }
.verdict.medium { border-color: var(--warn); }
li { margin: .3rem 0; } ul.links { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; }
form.upload { display: grid; grid-template-columns: 9rem 1fr; gap: .5rem 1rem; max-width: 44rem; align-items: center; }
input, button, select { font: inherit; padding: .3rem .6rem; max-width: 100%; } button { cursor: pointer; }
form.upload > .wide { grid-column: 1 / -1; } progress { width: 100%; }
#drop { border: 2px dashed var(--line); border-radius: 6px; padding: .8rem; } #drop.over { border-color: var(--link); background: var(--raised); }
form.find { margin: 0 0 .8rem; } figure.steps { margin: 0 0 1rem; } figure.steps svg { width: 100%; max-width: 45rem; border-bottom: 1px solid var(--line); }
figure.steps polyline { fill: none; stroke: var(--link); stroke-width: 2; } figure.steps polyline.fixed { stroke-dasharray: 4 4; } figure.steps circle { fill: var(--link); } figcaption { color: var(--muted); }
details { margin: .3rem 0; } summary { cursor: pointer; }
@media (max-width: 44rem) {
  form.upload { grid-template-columns: 1fr; }
  table.reports thead { display: none; } table.reports tr { display: block; border-bottom: 1px solid var(--line); padding: .5rem 0; }
  table.reports td { display: block; min-width: 0; border: 0; padding: .1rem 0; text-align: left; }
  table.reports td[data-name]::before { content: attr(data-name) ": "; color: var(--muted); }
  label { white-space: normal; } table.reports td.pick { display: inline-block; width: auto; margin-right: 1.5rem; }
}
)css";

const char* const list_script = R"js('use strict';
const jobs = document.getElementById('jobs');
const form = document.getElementById('upload');
let known = '';

function element(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

function describe(job) {
  if (job.state === 'queued') return 'waits, ' + job.before + ' before it';
  if (job.state === 'running') return 'runs, ' + job.traces_read + (job.traces ? ' of ' + job.traces : '') + ' traces read';
  return job.state + (job.message ? ': ' + job.message : '');
}

function row(job) {
  const line = document.createElement('tr');
  const name = document.createElement('td');
  if (job.state === 'done') {
    const link = element('a', job.name);
    link.href = '/reports/' + encodeURIComponent(job.name);
    name.append(link);
  } else {
    name.append(job.name);
  }
  const act = document.createElement('td');
  if (job.state === 'queued' || job.state === 'running') {
    const button = element('button', 'Cancel');
    button.addEventListener('click', () => fetch('/api/v1/analyses/' + job.id, { method: 'DELETE' }).then(refresh));
    act.append(button);
  }
  line.append(name, element('td', describe(job)), act);
  return line;
}

async function refresh() {
  const answer = await fetch('/api/v1/analyses');
  if (!answer.ok) return;
  const list = (await answer.json()).analyses;
  jobs.replaceChildren(...list.reverse().map(row));
  document.getElementById('jobs-part').hidden = list.length === 0;
  const done = list.filter((job) => job.state === 'done').map((job) => job.id).join();
  if (known !== '' && done !== known.slice(1)) location.reload();
  known = ' ' + done;
  const active = list.some((job) => job.state === 'queued' || job.state === 'running');
  if (active) setTimeout(refresh, 1000);
}

function tell(text) {
  document.getElementById('told').textContent = text;
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  const request = new XMLHttpRequest();
  const bar = document.getElementById('sent');
  request.open('POST', '/api/v1/analyses');
  request.upload.addEventListener('progress', (at) => { bar.hidden = false; bar.max = at.total; bar.value = at.loaded; });
  request.addEventListener('loadend', () => {
    bar.hidden = true;
    let answer = {};
    try { answer = JSON.parse(request.responseText); } catch { /* told below */ }
    if (request.status === 202) {
      tell('');
      form.reset();
      refresh();
    } else {
      tell(answer.error ? answer.error.problem + '; ' + answer.error.what_to_do : 'The upload was cut off; try again.');
    }
  });
  request.send(new FormData(form));
});
refresh();
)js";

const char* const drop_script = R"js('use strict';
const drop = document.getElementById('drop');
for (const kind of ['dragover', 'dragenter']) {
  drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.add('over'); });
}
drop.addEventListener('dragleave', () => drop.classList.remove('over'));
drop.addEventListener('drop', (event) => {
  event.preventDefault();
  drop.classList.remove('over');
  const files = [...event.dataTransfer.files].sort((a, b) => a.lastModified - b.lastModified);
  if (files.length !== 2) {
    document.getElementById('drop-told').textContent = 'Drop two files at once, the store.h5 of two reports.';
    return;
  }
  ['before', 'after'].forEach((name, i) => {
    const one = new DataTransfer();
    one.items.add(files[i]);
    document.getElementById(name).files = one.files;
  });
  drop.requestSubmit();
});
)js";

}  // namespace nsys_explain::serve
