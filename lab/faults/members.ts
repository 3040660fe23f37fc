/** Faults of servers that keep their data: a single one, or a group that agrees and elects a leader. */
import type { Act, Fault, Undo } from './store.js'

export interface Member {
  readonly running: boolean
  kill9(): Promise<void>
  /** Keeps its data. */
  restart(): Promise<void>
  pause(): void
  resume(): void
}

export interface Group {
  readonly servers: readonly Member[]
  /** The current leader; waits until there is one. */
  leader(): Promise<Member>
}

const subjects = ['servers']
/** Minimum interval between two faults of a kind that a server takes a while to recover from, in ms. */
const rest = 1_500

export function aloneFaults(server: Member): Fault[] {
  return takingTurns([
    { kind: 'server: pause', subjects, weight: 2, begin: () => pause([server]) },
    {
      kind: 'server: kill and start again',
      subjects,
      weight: 2,
      lasts: [0.05, 1],
      apart: rest,
      begin: () => kill([server]),
    },
  ])
}

/** @param more further faults of these servers */
export function groupFaults({ servers, leader }: Group, more: readonly Fault[] = []): Fault[] {
  const picked = ({ amount }: Act, from: readonly Member[] = servers) => {
    const one = from[Math.floor(amount * from.length)]
    return one === undefined ? [] : [one]
  }
  const followers = async () => {
    const present = await leader()
    return servers.filter((one) => one !== present)
  }
  const killed = { subjects, lasts: [0.05, 3], apart: rest } as const
  return takingTurns([
    { kind: 'leader: pause', subjects, weight: 2, begin: async () => pause([await leader()]) },
    { kind: 'leader: kill and start again', ...killed, weight: 2, begin: async () => kill([await leader()]) },
    { kind: 'follower: pause', subjects, begin: async (act) => pause(picked(act, await followers())) },
    {
      kind: 'follower: kill and start again',
      ...killed,
      begin: async (act) => kill(picked(act, await followers())),
    },
    {
      kind: 'no majority: all but one paused',
      subjects,
      lasts: [0.05, 1.5],
      begin: (act) => {
        const [left] = picked(act)
        return pause(servers.filter((one) => one !== left))
      },
    },
    { kind: 'all servers: kill and start again', ...killed, lasts: [0.05, 0.5], begin: () => kill(servers) },
    ...more,
  ])
}

/**
 * Runs one server fault at a time, so that the leader is known, and no server is killed while it is being started. Starting takes time, so
 * the next fault may begin later than planned.
 */
function takingTurns(faults: readonly Fault[]): Fault[] {
  let free: Promise<void> = Promise.resolve()
  const begin = async (fault: Fault, act: Act): Promise<Undo> => {
    const before = free
    let over: () => void = () => undefined
    free = new Promise((resolve) => {
      over = resolve
    })
    await before
    try {
      const undo = await fault.begin(act)
      return () => Promise.resolve(undo?.()).finally(over)
    } catch (error) {
      over()
      throw error
    }
  }
  return faults.map((fault) => ({ ...fault, begin: (act) => begin(fault, act) }))
}

function pause(members: readonly Member[]): Undo {
  for (const member of members) member.pause()
  return () => {
    for (const member of members) member.resume()
  }
}

async function kill(members: readonly Member[]): Promise<Undo> {
  await Promise.all(members.map((member) => member.kill9()))
  return async () => void (await Promise.all(members.map((member) => member.restart())))
}
