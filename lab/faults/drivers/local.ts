/** `local()`: the broker lives in one of the workers, so pausing, blocking and killing workers hits it, too; and so on purpose. */
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { local } from 'holdfast/local'
import { type Act, type Fault, type LabDriver, lab as made } from '../store.js'

export const lab: LabDriver = made({
  about: 'local: processes of one machine, the broker in one of them',
  client: (directory) => ({ driver: local({ directory: directory as string }), close: () => undefined }),
  open: async ({ folder }) => ({
    place: () => folder,
    direct: () => ({ driver: local({ directory: folder }), close: () => undefined }),
    faults: faultsIn(folder),
    settles: 5_000,
    // Order is not promised while the broker changes hands: who asks anew may come before who has not come back yet.
    check: { fifo: false, falseBusy: { lag: 5_000 } },
    versions: {},
    close: async () => undefined,
  }),
})

function faultsIn(folder: string): Fault[] {
  return [
    {
      kind: 'kill the broker',
      subjects: ['broker'],
      weight: 3,
      lasts: [0.01, 0.02],
      begin: async ({ crew }) => {
        await crew.kill(host(folder, crew) ?? 0)
        return undefined
      },
    },
    {
      kind: 'stop the broker',
      subjects: ['broker'],
      weight: 3,
      begin: ({ crew }) => {
        const n = host(folder, crew)
        if (n === undefined) return undefined
        crew.pause(n)
        return () => crew.resume(n)
      },
    },
    {
      kind: 'delete the journal',
      subjects: ['directory'],
      apart: 1_000,
      lasts: [0.05, 0.5],
      begin: () => {
        rmSync(join(folder, 'journal'), { force: true })
        return undefined
      },
    },
  ]
}

/** The worker that runs the broker, as the journal says. */
function host(folder: string, crew: Act['crew']): number | undefined {
  try {
    const header = readFileSync(join(folder, 'journal'), 'utf8').split('\n')[0] ?? '[]'
    const pid = Number(JSON.parse(header)[3])
    const n = Array.from({ length: crew.size }, (_, n) => n).find((n) => crew.pid(n) === pid)
    return n
  } catch {
    // Nobody, while it is not there yet or just being written anew.
    return undefined
  }
}
