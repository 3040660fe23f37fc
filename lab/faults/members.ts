/** What can be done to servers that keep their data: one alone, or several that agree and elect a leader. */
import type { Act, Fault, Undo } from './store.js'

export interface Member {
  readonly running: boolean
  kill9(): Promise<void>
  /** With its data. */
  restart(): Promise<void>
  pause(): void
  resume(): void
}

export interface Group {
  readonly servers: readonly Member[]
  /** The one that the others follow; waits for it. */
  leader(): Promise<Member>
}

const subjects = ['servers']
/** Between two of a kind that take a server a while to come back from, in ms. */
const rest = 1_500

export function aloneFaults(server: Member): Fault[] {
  return inTurn([
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

/** @param more to which these servers are subject, too */
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
  return inTurn([
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
 * One at a time is done to the servers, so that who leads is known, and nobody is killed who is just being started. Starting takes its
 * time, so the next may have to wait although the plan has it later.
 */
function inTurn(faults: readonly Fault[]): Fault[] {
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
