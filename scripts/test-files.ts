// Which test files there are, which tier each of them belongs to, and beside which others it runs. A file says so itself in its first
// lines; without a word it belongs to the first tier and runs beside others.
//
//   // Second tier because …     not part of `npm test`; `npm run test:all` and CI run it
//   // Runs alone because …      measures time: nothing else runs meanwhile
//   import '…/support/background.js'   only computes: gets the processor time that the others leave
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root: string = fileURLToPath(new URL('../..', import.meta.url))

/** `waits`: works little, and needs a processor at once when it does. `computes`: runs at low priority. `alone`: measures time. */
export type Way = 'waits' | 'computes' | 'alone'
export type Tier = 'first' | 'second'

export interface TestFile {
  /** From the root of the checkout. */
  readonly source: string
  readonly built: string
  readonly way: Way
  readonly tier: Tier
}

/**
 * Those that take longest, in this order: started last, one of them would run by itself at the end. The suite mostly waits, so between its
 * instances stand files that work.
 */
const longest: readonly string[] = [
  'lab/live',
  'faults/local-kill',
  'lab/databases',
  'conformance/consul',
  'conformance/etcd',
  'conformance/zookeeper',
  'conformance/mysql',
  'conformance/redlock',
  'cli/smoke',
  'cli/run',
  'faults/local-crash',
  'drivers/zookeeper/requests',
  'guard/sql',
  'lab/quick',
  'drivers/redis/hand-off',
  'drivers/redis/hazards',
  'drivers/redis/refusals',
  'drivers/postgres/statements',
  'drivers/mysql/hazards',
  'drivers/mysql/renewals',
  'conformance/redis',
  'conformance/local',
  'conformance/postgres',
  'conformance/memory',
  'conformance/etcd-grpc',
  'conformance/zookeeper-ensemble',
  'conformance/consul-cluster',
  'conformance/etcd-cluster',
  'conformance/etcd-grpc-cluster',
  'conformance/mysql-session',
  'conformance/redis-sentinel',
  'conformance/redis-cluster',
  'conformance/redis-flavours',
  'lab/canaries',
  'conformance/broken-drivers',
  'lab/scenes',
  'cli/verify',
  'bench/suites',
  'topology/redis-replaced-master',
  'topology/redis-fair-promotion',
  'topology/redis-cluster-forgets',
  'topology/redis-woken-master',
  'topology/redis-lossy-promotion',
  'topology/redis-promoted-long-ago',
  'web-locks/servers',
  'simulation/memory-more',
  'simulation/table-more',
  'simulation/minting-more',
  'simulation/redis-more',
]

export interface Choice {
  /** Words of paths; with any, the tier does not matter. */
  readonly words: readonly string[]
  readonly tier: Tier | 'all'
}

/** The files that a run has, in their order. */
export function chosen(files: readonly TestFile[], { words, tier }: Choice): TestFile[] {
  return files.filter((file) =>
    words.length === 0
      ? tier === 'all' || tier === file.tier
      : words.some((word) => file.source.includes(word)),
  )
}

export function testFiles(): TestFile[] {
  const names = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .sort()
  const missing = longest.filter((name) => !names.includes(`${name}.test.ts`))
  if (missing.length > 0) throw new Error(`scripts/test-files.ts names tests that are not there: ${missing}`)
  const rank = (name: string) => {
    const at = longest.indexOf(name.replace(/\.test\.ts$/, ''))
    return at < 0 ? longest.length : at
  }
  return names.sort((a, b) => rank(a) - rank(b)).map(toTestFile)
}

function toTestFile(name: string): TestFile {
  const source = join('test', name)
  const built = join(root, 'build/test', name.replace(/\.ts$/, '.js'))
  if (!existsSync(built)) throw new Error(`${relative(root, built)} is missing: run 'npm run build' first`)
  return { source, built, ...declared(readFileSync(join(root, source), 'utf8')) }
}

/** What the text of a test file declares. */
export function declared(text: string): Pick<TestFile, 'way' | 'tier'> {
  const says = (words: string) => text.split('\n', 12).some((line) => line.startsWith(`// ${words} because `))
  const computes = /^import '(\.\.\/)+support\/background\.js'$/m.test(text)
  return {
    way: says('Runs alone') ? 'alone' : computes ? 'computes' : 'waits',
    tier: says('Second tier') ? 'second' : 'first',
  }
}
