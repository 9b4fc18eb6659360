# Bash completion of nsys-explain-mpi. The options come from the program's own --help, so they are always its own.
_nsys_explain_mpi() {
  local word=${COMP_WORDS[COMP_CWORD]} command=()
  case ${COMP_WORDS[1]:-} in
    show | compare | diff | merge | serve) ((COMP_CWORD > 1)) && command=("${COMP_WORDS[1]}") ;;
  esac
  if [[ $word == -* ]]; then
    local help
    help=$(NSYS_EXPLAIN_MPI=off "${COMP_WORDS[0]}" "${command[@]}" --help 2>/dev/null)
    mapfile -t COMPREPLY < <(compgen -W "$(grep -oE '^ +(-[a-z],)?--[a-z-]+' <<<"$help" | grep -oE -- '--[a-z-]+')" -- "$word")
    return
  fi
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$word")
  if ((COMP_CWORD == 1)); then
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "show compare diff merge serve" -- "$word")
  fi
}
complete -F _nsys_explain_mpi nsys-explain-mpi
