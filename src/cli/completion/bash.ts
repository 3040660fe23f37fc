/** Completion for bash, from version 3.2 on; does not need bash-completion. */
import { beginnings, type CommandWords, type OptionWords, type Value } from './words.js'

/** Every word consists of letters, digits and dashes: none needs quoting. */
export function bash(commands: readonly CommandWords[]): string {
  return `# bash completion for holdfast. Load it in ~/.bashrc: source <(holdfast completion bash)

_holdfast_from() {
  local word
  while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen "$@")
}

_holdfast_files() {
  _holdfast_from -f -- "$1"
  # A space in a name is quoted, a folder gets its slash.
  compopt -o filenames 2>/dev/null
}

_holdfast_stores() {
  _holdfast_from -W "$("$1" completion stores 2>/dev/null)" -- "$2"
  local names=\${#COMPREPLY[@]}
  _holdfast_from -W '${beginnings.join(' ')}' -- "$2"
  # The rest of a URL follows without a space.
  if ((\${#COMPREPLY[@]} > names)); then compopt -o nospace 2>/dev/null; fi
}

_holdfast() {
  local program=$1 cur=\${COMP_WORDS[COMP_CWORD]} at=$((COMP_CWORD - 1)) command= i
  COMPREPLY=()
  # bash makes a word of the = in --on=prod.
  if [ "$cur" = = ]; then cur=; elif [ "\${COMP_WORDS[at]}" = = ]; then at=$((at - 1)); fi
  local prev=\${COMP_WORDS[at]}
  for ((i = 1; i < COMP_CWORD; i++)); do
    case \${COMP_WORDS[i]} in
      --)
        # What follows the names of other commands is a name, too.
        if [ "$command" != run ]; then return; fi
        # bash-completion, where it is loaded, completes the command as it does without holdfast.
        if declare -F _command_offset >/dev/null; then _command_offset $((i + 1))
        elif ((i == COMP_CWORD - 1)); then _holdfast_from -c -- "$cur"
        else compopt -o default 2>/dev/null; fi
        return
        ;;
      -*) ;;
      *) if [ -z "$command" ]; then command=\${COMP_WORDS[i]}; fi ;;
    esac
  done
  case $command in
    '') _holdfast_from -W '${commands.map(({ name }) => name).join(' ')} --help --version' -- "$cur" ;;
${commands.map(branch).join('\n')}
  esac
}

complete -F _holdfast holdfast
`
}

function branch({ name, options, argument }: CommandWords): string {
  const values = options.flatMap((option) =>
    option.value === undefined ? [] : [`        ${spellings(option)}) ${complete(option.value)} ;;`],
  )
  const words = options.map(({ long }) => long).join(' ')
  const free = argument === undefined ? ':' : complete(argument)
  return `    ${name})
      case $prev in
${[...values, `        *)\n          case $cur in\n            -*) ${complete(words.split(' '))} ;;\n            *) ${free} ;;\n          esac\n          ;;`].join('\n')}
      esac
      ;;`
}

function spellings({ long, short }: OptionWords): string {
  return short === undefined ? long : `${long} | ${short}`
}

function complete(value: Value): string {
  if (value === 'store') return '_holdfast_stores "$program" "$cur"'
  if (value === 'file') return '_holdfast_files "$cur"'
  if (value === 'anything') return ':'
  return `_holdfast_from -W '${value.join(' ')}' -- "$cur"`
}
