/**
 * `local()`: the broker lives in one of the workers, so pausing, blocking and killing workers affects it, too; some faults target it
 * deliberately.
 */
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { local } from 'holdfast/local'
import { type Act, type Fault, type LabDriver, lab as made, secondHolder } from '../store.js'

export const lab: LabDriver = made({
  about: 'local: processes of one machine, the broker in one of them',
  client: (directory) => ({ driver: local({ directory: directory as string }), close: () => undefined }),
  open: async ({ folder }) => ({
    place: () => folder,
    direct: () => ({ driver: local({ directory: folder }), close: () => undefined }),
    faults: directoryFaults(folder),
    lingers: true,
    settles: 5_000,
    // Order is not guaranteed during a broker hand-over: a new request may come before a waiter that has not reconnected yet.
    check: { fifo: false, falseBusy: { lag: 5_000 } },
    versions: {},
    close: async () => undefined,
  }),
})

function directoryFaults(folder: string): Fault[] {
  return [
    {
      kind: 'kill the broker',
      subjects: ['broker'],
      weight: 3,
      lasts: [0.01, 0.02],
      begin: async ({ workerPool }) => {
        await workerPool.kill(host(folder, workerPool) ?? 0)
        return undefined
      },
    },
    {
      kind: 'stop the broker',
      subjects: ['broker'],
      weight: 3,
      begin: ({ workerPool }) => {
        const n = host(folder, workerPool)
        if (n === undefined) return undefined
        workerPool.pause(n)
        return () => workerPool.resume(n)
      },
    },
    {
      kind: 'delete the journal',
      subjects: ['directory'],
      apart: 1_000,
      // The broker notices it within some 20 ms, and restores the file.
      lasts: [0.01, 0.02],
      excuses: [
        {
          rules: secondHolder,
          within: 50,
          beside: ['kill worker', 'kill the broker'],
          why: 'the journal goes in the same moment as the broker that would have put it back (docs/drivers/local.md)',
        },
      ],
      begin: () => {
        rmSync(join(folder, 'journal'), { force: true })
        return undefined
      },
    },
  ]
}

/** The worker that runs the broker, according to the journal. */
function host(folder: string, workerPool: Act['workerPool']): number | undefined {
  try {
    const header = readFileSync(join(folder, 'journal'), 'utf8').split('\n')[0] ?? '[]'
    const pid = Number(JSON.parse(header)[3])
    const n = Array.from({ length: workerPool.size }, (_, n) => n).find((n) => workerPool.pid(n) === pid)
    return n
  } catch {
    // None: the file does not exist yet, or is just being rewritten.
    return undefined
  }
}
