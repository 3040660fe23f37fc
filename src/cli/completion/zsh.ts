/** Completion for zsh. */
import { beginnings, type CommandWords, type OptionWords, type Value } from './words.js'

export function zsh(commands: readonly CommandWords[]): string {
  return `#compdef holdfast
# zsh completion for holdfast. Load it in ~/.zshrc, after compinit: source <(holdfast completion zsh)

_holdfast_stores() {
  local -a names urls
  names=(\${(f)"$(\${program:-holdfast} completion stores 2>/dev/null)"})
  urls=(${beginnings.map(quoted).join(' ')})
  compadd -a names
  compadd -S '' -a urls
}

_holdfast() {
  local curcontext="$curcontext" state line program=$words[1]
  typeset -A opt_args
  # Not called commands, which is an array of zsh's own.
  local -a subcommands
  subcommands=(
${commands.map(({ name, what }) => `    ${quoted(`${name}:${what}`)}`).join('\n')}
  )
  _arguments -C \\
    '(- *)'{-h,--help}'[display help]' \\
    '(- *)'{-V,--version}'[output the version number]' \\
    '1: :->command' \\
    '*:: :->rest'
  case $state in
    command) _describe command subcommands ;;
    rest)
      case $words[1] in
${commands.map(branch).join('\n')}
      esac
      ;;
  esac
}

if [ "$funcstack[1]" = _holdfast ]; then _holdfast "$@"; else compdef _holdfast holdfast; fi
`
}

function branch({ name, options, argument }: CommandWords): string {
  const free = argument === undefined ? [] : [quoted(`*: :${action(argument)}`)]
  return `        ${name})${name === 'run' ? theCommand : ''}
          _arguments -s \\
${[...options.map(spec), ...free].map((line) => `            ${line}`).join(' \\\n')}
          ;;`
}

/** Completes what follows -- as a command line of its own. */
const theCommand = `
          local dashes=\${words[(i)--]}
          if (( dashes < CURRENT )); then
            shift $dashes words
            (( CURRENT -= dashes ))
            _normal
            return
          fi`

function spec({ long, short, what, value }: OptionWords): string {
  const says = `[${what.replace(/[\\[\]:]/g, '\\$&')}]`
  const takes = value === undefined ? '' : `: :${action(value)}`
  const one = (spelling: string) => quoted(`${spelling}${says}${takes}`)
  // With the =, zsh completes --on=prod as well as --on prod.
  const spelled = one(value === undefined ? long : `${long}=`)
  return short === undefined ? spelled : `${spelled} ${one(short)}`
}

function action(value: Value): string {
  if (value === 'store') return '_holdfast_stores'
  if (value === 'file') return '_files'
  return value === 'anything' ? ' ' : `(${value.join(' ')})`
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
