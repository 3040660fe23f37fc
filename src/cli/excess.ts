/** Refuses arguments that a command does not take, with their names and the remedy. */
import type { Command } from 'commander'
import { badInput } from './exit.js'
import { quoted } from './print.js'

export function refuseExcess(command: Command): void {
  command.allowExcessArguments().hook('preAction', () => {
    const taken = command.registeredArguments
    if (taken.at(-1)?.variadic || command.args.length <= taken.length) return
    throw badInput(complaint(command, command.args))
  })
}

function complaint(command: Command, args: readonly string[]): string {
  const name = command.name()
  const takesStore = command.options.some(({ long }) => long === '--on')
  const [only] = command.registeredArguments
  const takes = `${name} takes ${only === undefined ? 'no argument' : `one ${nouns[only.name()] ?? only.name()}`}`
  const extra = args.slice(command.registeredArguments.length)
  // A URL may contain a password.
  if (takesStore && extra.some(isUrl)) return `${takes}; a store goes after --on`
  if (only === undefined) {
    const remedy = takesStore ? 'a store goes after --on' : 'leave it out'
    return `${takes}, got ${quoted(extra)}; ${remedy}`
  }
  const remedy = name === 'hold' ? forSeveral : 'call it once for each, and quote what contains blanks'
  return `${takes}, got ${quoted(args)}; ${remedy}`
}

const forSeveral = 'holdfast run takes several at once: holdfast run NAME… -- ./script.sh'
const nouns: Readonly<Record<string, string>> = { name: 'lock' }

const isUrl = (text: string) => text.includes('://') || /^[a-z+]+:.*@/i.test(text)
