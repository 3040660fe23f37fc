// docs/reference/cli.md: what `holdfast help` says of each command.
import { commandLine } from '../../src/cli/command-line.js'
import { manual } from '../../src/cli/help/manual.js'
import { page } from './markdown.js'
import { inEnglish, type Say } from './words.js'

const introduction =
  'What `holdfast help COMMAND` says of each command. [The command line](../cli.md) tells how they are used together; [store URLs](urls.md) what `--on` takes.'

export function cliPage(say: Say): string {
  const sections = commandLine(undefined).commands.map((command) => {
    const summary = say === inEnglish ? [] : [say(command.description())] // The help itself is in English.
    return [`## holdfast ${command.name()}`, ...summary, `\`\`\`text\n${manual(command, 100)}\`\`\``].join(
      '\n\n',
    )
  })
  return page(say('Commands'), say(introduction), ...sections)
}
