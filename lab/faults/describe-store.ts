/** What a store looks like while workers wait and get nothing: its locks, and what its servers say. Goes to `store.txt` beside the history. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createLocks } from 'holdfast'
import type { RedisServer } from '../../test/support/servers/redis.js'
import type { Store } from './store.js'
import { locksAmong, subjectsFor } from './workload.js'

/** Maximum time for one question, in ms: a server may be down. */
const timeout = 5_000

export async function describeStore(store: Store, ttl: number, folder: string): Promise<void> {
  const told = await Promise.all([
    withinTime('locks', describeLocks(store, ttl)),
    withinTime('servers', store.describe?.()),
  ])
  writeFileSync(join(folder, 'store.txt'), `${told.join('\n\n')}\n`)
}

async function describeLocks(store: Store, ttl: number): Promise<string> {
  const client = await store.direct?.()
  if (client === undefined) return 'nobody can look past the faults'
  const locks = createLocks(client.driver, { ttl })
  try {
    const names = locksAmong(subjectsFor(locks.driver.traits, store.lingers)).map(({ name }) => name)
    const all = names.map(async (name) => `${name}: ${JSON.stringify(await locks.inspect(name))}`)
    return (await Promise.all(all)).join('\n')
  } finally {
    await locks.close()
    await client.close()
  }
}

/** The answers of Redis servers, each under its port and the question. */
export async function describeAnswers(
  servers: readonly RedisServer[],
  ...command: string[]
): Promise<string> {
  const answers = servers.map(async (server) => {
    const answer = server.cli(...command).then(readable, (error) => `no answer: ${error}`)
    return `${server.port} ${command.join(' ')}\n${await withinTime('answer', answer)}`
  })
  return (await Promise.all(answers)).join('\n\n')
}

const readable = (answer: unknown) => (typeof answer === 'string' ? answer : JSON.stringify(answer))

function withinTime(what: string, answer: Promise<string> | undefined): Promise<string> {
  if (answer === undefined) return Promise.resolve(`${what}: not asked`)
  return new Promise((resolve) => {
    const late = setTimeout(() => resolve(`${what}: nothing within ${timeout} ms`), timeout)
    void answer
      .catch((error) => `${what}: ${error}`)
      .then((told) => {
        clearTimeout(late)
        resolve(told)
      })
  })
}
