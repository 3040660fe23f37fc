/** Whether Redis servers take a write, asked without holdfast and past all faults. */
import type { RedisServer } from '../../test/support/servers/redis.js'

type Answers = (signal: AbortSignal) => Promise<unknown>

/** A key in each third of the slots, which the three masters of a Cluster have from the start; the lab's own locks are in others. */
const everyThird = ['{b}answers', '{c}answers', '{a}answers']

/** Some server takes a write: of a master and its replicas, the master. */
export const serverAnswers = (servers: readonly RedisServer[]): Answers =>
  inTime(() => Promise.any(servers.map((server) => write(server, 'answers'))))

/** Every third of a Cluster's slots has a master that takes a write. */
export const clusterAnswers = (nodes: readonly RedisServer[]): Answers =>
  inTime(() => Promise.all(everyThird.map((key) => Promise.any(nodes.map((node) => write(node, key))))))

/** More than half of independent servers take a write. */
export const majorityAnswers = (servers: readonly RedisServer[]): Answers =>
  inTime(
    () =>
      new Promise<void>((resolve, reject) => {
        let taken = 0
        const asked = servers.map(async (server) => {
          await write(server, 'answers')
          if (++taken > servers.length / 2) resolve()
        })
        // Has no effect if a majority answered.
        void Promise.allSettled(asked).then(() => reject(new Error(`${taken} of ${servers.length} answered`)))
      }),
  )

const write = (server: RedisServer, key: string) => server.cli('SET', key, 'x', 'PX', 1000)

/** A frozen server does not answer: the signal ends the request. */
function inTime(ask: () => Promise<unknown>): Answers {
  return (signal) =>
    new Promise((resolve, reject) => {
      const late = () => reject(signal.reason)
      signal.addEventListener('abort', late, { once: true })
      void ask()
        .then(resolve, reject)
        .finally(() => signal.removeEventListener('abort', late))
    })
}
