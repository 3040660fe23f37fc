// Which test files there are, and beside which others each of them runs.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))

/**
 * `waits`: for servers, for leases to run out; works little, and wants a processor at once when it does.
 * `computes`: says so by importing support/background.ts, which lets everything else go first.
 * `alone`: measures time, and says `// Runs alone because …` in its first lines.
 */
export type Way = 'waits' | 'computes' | 'alone'

export interface TestFile {
  /** From the root of the checkout. */
  readonly source: string
  readonly built: string
  readonly way: Way
}

/** Those that take longest, in this order: begun last, one of them would be left over at the end. */
const first: readonly string[] = [
  'lab/live',
  'chaos/local-kill',
  'lab/databases',
  'drivers/zookeeper-ensemble',
  'drivers/consul-cluster',
  'drivers/etcd-cluster',
  'drivers/redis-flavours',
  'drivers/redis',
  'drivers/mysql',
  'drivers/mysql-session',
  'drivers/mysql-mariadb',
  'drivers/mysql-9',
  'drivers/redis-sentinel',
  'drivers/redis-cluster',
  'drivers/redlock',
  'drivers/consul',
  'drivers/etcd',
  'drivers/local',
  'drivers/zookeeper',
  'drivers/postgres',
  'drivers/postgres-js',
  'drivers/postgres-session',
  'lab/canaries',
  'lab/scenes',
  'cli/verify',
  'bench/suites',
  'conformance/memory',
  'simulation/memory',
  'simulation/table',
  'simulation/redis',
]

export function testFiles(): TestFile[] {
  const names = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .sort()
  const missing = first.filter((name) => !names.includes(`${name}.test.ts`))
  if (missing.length > 0) throw new Error(`scripts/test-files.ts names tests that are not there: ${missing}`)
  const turn = (name: string) => {
    const at = first.indexOf(name.replace(/\.test\.ts$/, ''))
    return at < 0 ? first.length : at
  }
  return names
    .sort((a, b) => turn(a) - turn(b))
    .map((name) => {
      const source = join('test', name)
      const built = join(root, 'build/test', name.replace(/\.ts$/, '.js'))
      if (!existsSync(built))
        throw new Error(`${relative(root, built)} is missing: run 'npm run build' first`)
      return { source, built, way: wayOf(source) }
    })
}

function wayOf(source: string): Way {
  const text = readFileSync(join(root, source), 'utf8')
  if (text.split('\n', 12).some((line) => line.startsWith('// Runs alone because '))) return 'alone'
  return /^import '(\.\.\/)+support\/background\.js'$/m.test(text) ? 'computes' : 'waits'
}
