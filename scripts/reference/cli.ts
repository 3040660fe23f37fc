// docs/reference/cli.md: what `holdfast help` says of each command.
import { commandLine } from '../../src/cli/command-line.js'
import { manual } from '../../src/cli/help/manual.js'
import { page } from './markdown.js'

const introduction =
  'What `holdfast help COMMAND` says of each command. [The command line](../cli.md) tells how they are used together; [store URLs](urls.md) what `--on` takes.'

export function cliPage(): string {
  const sections = commandLine(undefined).commands.map((command) =>
    [`## holdfast ${command.name()}`, `\`\`\`text\n${manual(command, 100)}\`\`\``].join('\n\n'),
  )
  return page('Commands', introduction, ...sections)
}
