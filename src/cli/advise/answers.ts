/** The five questions, and how to parse the answers: the same on a terminal and from flags. */
import { parseDuration } from '../duration.js'
import { badInput } from '../exit.js'

export const stores = ['redis', 'redlock', 'postgres', 'mysql', 'zookeeper', 'etcd', 'consul'] as const
export type Store = (typeof stores)[number]

export interface Answers {
  /** Where the competing processes run. */
  readonly machines: 'one' | 'many'
  /** Stores already running. */
  readonly run: readonly Store[]
  /** The cost of two holders at once, for a moment. */
  readonly double: 'harmless' | 'costly' | 'never'
  /** Maximum duration of the work under the lock, in ms. */
  readonly section: number
  /** Maximum number of simultaneous waiters for one lock. */
  readonly waiters: number
}

export interface Question<K extends keyof Answers> {
  readonly flag: string
  /** The values of the flag, for the help. */
  readonly valueName: string
  readonly about: string
  /** The question, for the terminal. */
  readonly text: string
  /** @throws CliError that names the flag, the value and the valid values */
  readonly read: (text: string) => Answers[K]
}

const also: Readonly<Record<string, Store>> = { valkey: 'redis', postgresql: 'postgres', mariadb: 'mysql' }

export const questions: { readonly [K in keyof Answers]: Question<K> } = {
  machines: {
    ...{ flag: '--machines', valueName: '<one|many>' },
    about: 'where the processes run that exclude each other',
    text: 'Do all processes that use the lock run on one machine? (one, many)',
    read: (text) => parseChoice('--machines', text, ['one', 'many']),
  },
  run: {
    ...{ flag: '--run', valueName: '<stores>' },
    about: `what you run already, between commas: ${stores.join(', ')}, none`,
    text: `Which of these do you run already? (${stores.join(', ')}, none; redlock: three or more independent Redis servers)`,
    read: parseStores,
  },
  double: {
    ...{ flag: '--double', valueName: '<harmless|costly|never>' },
    about: 'what it costs when two hold the lock at once for a moment',
    text: 'What if two hold the lock at once for a moment? (harmless: some work is done twice; costly: somebody repairs it; never: money or data is lost)',
    read: (text) => parseChoice('--double', text, ['harmless', 'costly', 'never']),
  },
  section: {
    ...{ flag: '--section', valueName: '<duration>' },
    about: 'how long the work under the lock takes, at most',
    text: 'How long does the work under the lock take, at most? (500ms, 30s, 5m)',
    read: (text) => parseDuration('--section', text, { least: 1 }),
  },
  waiters: {
    ...{ flag: '--waiters', valueName: '<n>' },
    about: 'how many wait for one lock at the same time, at most',
    text: 'How many wait for one lock at the same time, at most? (a number)',
    read: parseNumber,
  },
}

function parseChoice<T extends string>(flag: string, text: string, all: readonly T[]): T {
  const found = all.find((one) => one === text.trim().toLowerCase())
  if (found === undefined) throw badInput(`${flag} must be ${all.join(' or ')}, got '${text}'`)
  return found
}

function parseStores(text: string): Store[] {
  const words = text
    .toLowerCase()
    .split(',')
    .map((word) => word.trim())
  if (words.length === 1 && words[0] === 'none') return []
  const found = words.map((word) => {
    const store = stores.find((one) => one === (also[word] ?? word))
    if (store === undefined)
      throw badInput(`--run takes ${stores.join(', ')} between commas, or none; got '${word}'`)
    return store
  })
  return [...new Set(found)]
}

/** More than this is almost certainly a typo. */
const most = 1_000_000

function parseNumber(text: string): number {
  if (!/^\d{1,7}$/.test(text.trim()) || Number(text) > most)
    throw badInput(`--waiters must be a whole number from 0 to ${most}, got '${text}'`)
  return Number(text)
}
