/** `holdfast help`, and what `--help` prints below the options: examples, and the table of exit codes. */
import type { Command } from 'commander'
import { badInput } from '../exit.js'
import { didYouMean } from '../nearest.js'
import { plain } from '../print.js'
import { manual } from './manual.js'
import { exitCodes, pages } from './pages.js'

/** Call it after all commands have been added. */
export function addHelp(program: Command): void {
  program
    .helpCommand(false)
    .command('help')
    .summary('tell all there is to know of a command')
    .description('Tells all there is to know of a command, like a page of man(1).')
    .argument('[command]', 'its name')
    .action((name: string | undefined) => printHelp(program, name))
  program.addHelpText('after', `\n${overview()}`)
  for (const command of program.commands) command.addHelpText('after', () => shortSummary(command.name()))
}

function printHelp(program: Command, name: string | undefined): void {
  if (name === undefined) return program.outputHelp()
  const command = program.commands.find((one) => one.name() === name)
  if (command === undefined) {
    const meant = didYouMean(
      name,
      program.commands.map((one) => one.name()),
    )
    throw badInput(`there is no command '${plain(name)}'${meant}`)
  }
  process.stdout.write(manual(command))
}

function overview(): string {
  const lines = ['run', 'ls', 'release'].flatMap((name) => pages[name]?.examples.slice(0, 1) ?? [])
  return `Examples:\n${columns(lines)}\n\nExit codes of run:\n${columns(exitCodes('run'))}\n\nAll about a command: holdfast help run`
}

function shortSummary(name: string): string {
  const { examples = [] } = pages[name] ?? {}
  const lines = examples.length === 0 ? '' : `\nExamples:\n${columns(examples)}\n`
  return `${lines}\nExit codes:\n${columns(exitCodes(name))}`
}

/** Two columns, indented. */
function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`.trimEnd()).join('\n')
}
