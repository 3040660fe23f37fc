/** All commands with their options, as commander knows them. */
import { Command } from 'commander'
import { adviseCommandLine } from './commands/advise.js'
import { completionCommandLine } from './commands/completion.js'
import { demoCommandLine } from './commands/demo.js'
import { doctorCommandLine } from './commands/doctor.js'
import { holdCommandLine } from './commands/hold.js'
import { labCommandLine } from './commands/lab.js'
import { runCommandLine } from './commands/run.js'
import { schemaCommandLine } from './commands/schema.js'
import { storeCommandLines } from './commands/store.js'
import { topCommandLine } from './commands/top.js'
import { uiCommandLine } from './commands/ui.js'
import { verifyCommandLine } from './commands/verify.js'
import { refuseExcess } from './excess.js'
import { addHelp } from './help/help.js'
import { version } from './version.js'

/**
 * @param rest what follows `--`: the command of `run`
 * @param says false: a wrong command line is thrown, and not written to stderr as well
 */
export function commandLine(rest: readonly string[] | undefined, says = true): Command {
  const program = new Command('holdfast')
    .description('Distributed locks with fencing tokens and bounded leases.')
    .version(version(), '-V, --version')
    .exitOverride()
    .configureOutput({
      outputError: (text, write) => says && write(text.replace(/^error: /, 'holdfast: ')),
    })
    .showHelpAfterError(says && '(--help lists commands and options)')
  runCommandLine(program, rest)
  holdCommandLine(program)
  storeCommandLines(program)
  topCommandLine(program)
  uiCommandLine(program)
  schemaCommandLine(program)
  demoCommandLine(program)
  labCommandLine(program)
  verifyCommandLine(program)
  doctorCommandLine(program)
  adviseCommandLine(program)
  completionCommandLine(program)
  addHelp(program)
  for (const command of program.commands) refuseExcess(command.copyInheritedSettings(program))
  return program
}
