/** `holdfast completion SHELL`: prints the script that teaches a shell to complete our command line. */
import type { Command } from 'commander'
import { findConfig } from '../config.js'
import { badInput } from '../exit.js'
import { didYouMean } from '../nearest.js'
import { plain } from '../print.js'

export function completionCommandLine(program: Command): void {
  program
    .command('completion')
    .summary('print a script that completes commands, options and stores in a shell')
    .description(
      'Prints a script that completes commands, options and stores in bash, zsh or fish. The names of stores are looked up in holdfast.json when they are asked for.',
    )
    .argument('<shell>', 'bash, zsh or fish')
    .action((shell: string) => print(program, shell))
}

async function print(program: Command, shell: string): Promise<void> {
  // The scripts call this while the user types: an error message would only get between the words.
  if (shell === 'stores') return void process.stdout.write(storeNames())
  const { shells, completionWords } = await import('../completion/words.js')
  const commands = completionWords(program)
  switch (shell) {
    case 'bash':
      return void process.stdout.write((await import('../completion/bash.js')).bash(commands))
    case 'zsh':
      return void process.stdout.write((await import('../completion/zsh.js')).zsh(commands))
    case 'fish':
      return void process.stdout.write((await import('../completion/fish.js')).fish(commands))
    default:
      throw badInput(
        `there is no completion for '${plain(shell)}', only for ${shells.join(', ')}${didYouMean(shell, shells)}`,
      )
  }
}

/** One per line. Empty if the configuration is refused: the command itself will say why. */
function storeNames(): string {
  try {
    return [...(findConfig()?.stores.keys() ?? [])].map((name) => `${name}\n`).join('')
  } catch {
    return ''
  }
}
