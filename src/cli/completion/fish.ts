/** Completion for fish. */
import { beginnings, type CommandWords, type OptionWords, type Value } from './words.js'

export function fish(commands: readonly CommandWords[]): string {
  return `# fish completion for holdfast. Write it to ~/.config/fish/completions/holdfast.fish

function __holdfast_stores
    holdfast completion stores 2>/dev/null
    printf '%s\\n' ${beginnings.join(' ')}
end

# What follows -- is no longer for holdfast.
function __holdfast_own
    not contains -- -- (commandline -opc)
end

# After run, it is a command line of its own.
function __holdfast_command
    set -l words (commandline -opc)
    set -l at (contains -i -- -- $words)
    set -e words[1..$at]
    set -l current (commandline -ct)
    complete -C (string join ' ' -- (string escape -- $words) "$current")
end

complete -c holdfast -f
complete -c holdfast -n __fish_use_subcommand -s V -l version -d 'output the version number'
complete -c holdfast -n 'not __holdfast_own; and __fish_seen_subcommand_from run' -a '(__holdfast_command)'
${commands.flatMap(lines).join('\n')}
`
}

function lines(command: CommandWords): string[] {
  const { name, what, options, argument } = command
  const seen = `-n '__holdfast_own; and __fish_seen_subcommand_from ${name}'`
  return [
    `complete -c holdfast -n __fish_use_subcommand -a ${name} -d ${quoted(what)}`,
    ...options.map((option) => `complete -c holdfast ${seen} ${spec(option)}`),
    ...(Array.isArray(argument) ? [`complete -c holdfast ${seen} -a '${argument.join(' ')}'`] : []),
  ]
}

function spec({ long, short, what, value }: OptionWords): string {
  const letter = short === undefined ? '' : ` -s ${short.slice(1)}`
  return `-l ${long.slice(2)}${letter}${taking(value)} -d ${quoted(what)}`
}

function taking(value: Value | undefined): string {
  if (value === undefined) return ''
  if (value === 'store') return " -x -a '(__holdfast_stores)'"
  if (value === 'file') return ' -r -F'
  return value === 'anything' ? ' -x' : ` -x -a '${value.join(' ')}'`
}

function quoted(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`
}
