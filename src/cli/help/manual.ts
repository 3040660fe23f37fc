/** A page about one command, in the order and form of man(1), built from the command line's own definitions. */
import type { Command, Help } from 'commander'
import { exitCodes, pages } from './pages.js'

const widest = 100
const indent = '       '

/** @param columns width of the terminal */
export function manual(command: Command, columns: number = process.stdout.columns || 80): string {
  const width = Math.min(columns, widest)
  const help = command.createHelp()
  const { examples = [], environment = [] } = pages[command.name()] ?? {}
  const section = (title: string, text: string) => (text === '' ? '' : `${title}\n${text}\n\n`)
  const list = (rows: Rows) => listed(rows, help, width)
  return [
    section('NAME', wrapped(`holdfast ${command.name()} - ${command.summary()}`, help, width, indent)),
    section('SYNOPSIS', `${indent}${help.commandUsage(command)}`),
    section('DESCRIPTION', wrapped(help.commandDescription(command), help, width, indent)),
    section(
      'ARGUMENTS',
      list(
        help.visibleArguments(command).map((one) => [help.argumentTerm(one), help.argumentDescription(one)]),
      ),
    ),
    section(
      'OPTIONS',
      list(help.visibleOptions(command).map((one) => [help.optionTerm(one), help.optionDescription(one)])),
    ),
    section('ENVIRONMENT', list(environment)),
    section('EXIT STATUS', list(exitCodes(command.name()))),
    section('EXAMPLES', list(examples)),
  ]
    .join('')
    .trimEnd()
    .concat('\n')
}

type Rows = readonly (readonly [term: string, what: string])[]

function listed(rows: Rows, help: Help, width: number): string {
  return rows
    .map(([term, what]) => `${indent}${term}\n${wrapped(what, help, width, `${indent}    `)}`)
    .join('\n')
}

function wrapped(text: string, help: Help, width: number, margin: string): string {
  return help
    .boxWrap(text, Math.max(20, width - margin.length))
    .split('\n')
    .map((line) => `${margin}${line}`.trimEnd())
    .join('\n')
}
