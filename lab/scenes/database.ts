/** What the scenes with a database have in common: a separate database on the shared server, and recorded visits. */
import type { Locks } from 'holdfast'
import type { ModeKind } from 'holdfast/verify'
import { createPool, type Pool } from 'mysql2/promise'
import { type Held, sceneTimeout } from './lock.js'
import { type Release, recordedLock } from './recorded-lock.js'
import { order, type SceneContext } from './scene-context.js'

/** A separate database on the shared server. */
export async function databaseUrl({ servers, prefix }: SceneContext): Promise<string> {
  const server = await servers.mariadb()
  await server.query(`create database ${prefix}`)
  const url = new URL(server.url)
  url.pathname = prefix
  return url.href
}

export async function mariadb(place: SceneContext): Promise<Pool> {
  const pool = createPool({ uri: await databaseUrl(place), connectionLimit: 10 })
  place.keep(() => pool.end())
  return pool
}

type Used = Pick<Locks, 'mutex' | 'inspect'>

export function ownLocks(place: SceneContext, locks: Used & Pick<Locks, 'close'>): Used {
  place.keep(() => locks.close())
  return locks
}

/** A recorded visit: acquires, and releases when told to. */
export function acquireAs(
  place: SceneContext,
  who: string,
  take: () => Promise<Release | undefined>,
  mode: ModeKind = 'exclusive',
): Promise<Held | undefined> {
  const recorder = place.history.recorder(who, who.charCodeAt(0))
  return recordedLock(recorder, { name: order, wait: sceneTimeout, mode }, take)
}

export async function underLock(locks: Pick<Locks, 'mutex'>, name: string): Promise<Release> {
  const lease = await locks.mutex(name).acquire({ wait: sceneTimeout })
  return () => lease.release()
}
