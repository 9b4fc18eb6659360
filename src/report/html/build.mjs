// Makes the page into a C++ source: node build.mjs OUTPUT.cpp. Run where `npm ci` was run.
import {readFileSync, writeFileSync} from "node:fs";
import {dirname, join} from "node:path";
import {fileURLToPath} from "node:url";
import {createRequire} from "node:module";

const here = dirname(fileURLToPath(import.meta.url));
const [output, modules] = process.argv.slice(2);
const esbuild = createRequire(join(modules, "package.json"))("esbuild");

const bundle = await esbuild.build({entryPoints: [join(here, "main.js")], bundle: true, minify: true, write: false, format: "iife",
  target: "es2020", charset: "ascii", nodePaths: [join(modules, "node_modules")], legalComments: "eof"});
// No </script> may stand inside a script.
const script = bundle.outputFiles[0].text.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
const style = (await esbuild.transform(readFileSync(join(here, "style.css"), "utf8"), {loader: "css", minify: true})).code;
const page = readFileSync(join(here, "page.html"), "utf8").replace("/*STYLE*/", () => style).replace("/*SCRIPT*/", () => script);
const [before, after] = page.split("/*DATA*/");

// String literals of at most 8 KiB, which every compiler takes.
function literal(text) {
  const pieces = [];
  for (let at = 0; at < text.length; at += 8192) pieces.push(`R"page~(${text.slice(at, at + 8192)})page~"`);
  return pieces.join("\n");
}
writeFileSync(output, `// Made by src/report/html/build.mjs.
#include "page.hpp"
namespace nsys_explain::report {
std::string_view page_before_data() { return ${literal(before)}; }
std::string_view page_after_data() { return ${literal(after)}; }
}  // namespace nsys_explain::report
`);
