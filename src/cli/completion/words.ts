/** The words a shell can complete, derived from the command line's own definitions; the same for every shell. */
import type { Command, Option } from 'commander'
import { known } from '../connect.js'

/** The value of an option or argument: a store, a file, one of some words, or anything else. */
export type Value = 'store' | 'file' | 'anything' | readonly string[]

export interface OptionWords {
  /** With its dashes. */
  readonly long: string
  readonly short: string | undefined
  readonly what: string
  /** `undefined`: the option takes no value. */
  readonly value: Value | undefined
}

export interface CommandWords {
  readonly name: string
  readonly what: string
  readonly options: readonly OptionWords[]
  /** Kind of its arguments. */
  readonly argument: Value | undefined
}

export const shells = ['bash', 'zsh', 'fish'] as const

/** Prefixes of a URL for `--on`, beside the names of stores. */
export const beginnings: readonly string[] = known.map((scheme) =>
  scheme === 'local:' ? scheme : `${scheme}//`,
)

export function completionWords(program: Command): CommandWords[] {
  const names = program.commands.map((command) => command.name())
  return program.commands.map((command) => ({
    name: command.name(),
    what: command.summary(),
    options: command.createHelp().visibleOptions(command).map(optionWords),
    argument: findArgument(command, names),
  }))
}

function optionWords(option: Option): OptionWords {
  const takes = option.required || option.optional
  return {
    long: option.long ?? '',
    short: option.short,
    what: shortened(option.description),
    value: takes ? kindOfValue(option.flags) : undefined,
  }
}

function kindOfValue(flags: string): Value {
  if (flags.includes('<store>')) return 'store'
  return /<(file|folder)>/.test(flags) ? 'file' : 'anything'
}

function findArgument(command: Command, names: readonly string[]): Value | undefined {
  if (command.registeredArguments.length === 0) return undefined
  if (command.name() === 'help') return names
  return command.name() === 'completion' ? shells : 'anything'
}

/** The first part of a sentence, to fit beside a word in a menu. */
function shortened(text: string): string {
  return text.replace(/ ?[(;:].*$/s, '')
}
