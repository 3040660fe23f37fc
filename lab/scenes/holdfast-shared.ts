/** holdfast in the stores that scenes share. Only ttl and wait are set, as each scene requires, and options that the lab's servers need. */
import { AcquireTimeoutError, createLocks, type DriverFactory, type Locks } from 'holdfast'
import { type ConsulOptions, consul } from 'holdfast/consul'
import { etcd } from 'holdfast/etcd'
import { guardedConsulTxn, StaleTokenError } from 'holdfast/guard'
import { type Recorder, recordLocks } from 'holdfast/verify'
import { type ZookeeperOptions, zookeeper } from 'holdfast/zookeeper'
import { type At, type Held, type Lock, maxTtl, resource, type SharedWay } from './lock.js'
import type { ConsulWay } from './naive-consul-locks.js'

export type HoldfastLocks = Pick<Locks, 'mutex' | 'close'>

export function toMutex(locks: HoldfastLocks): Lock {
  return {
    async take(name, ttl, wait) {
      if (wait === 0) return locks.mutex(name).tryAcquire({ ttl })
      return orTimeout(locks.mutex(name).acquire({ ttl, wait }))
    },
    close: () => locks.close(),
  }
}

function orTimeout<H>(asked: Promise<H>): Promise<H | undefined> {
  return asked.catch((error: unknown) => {
    if (!(error instanceof AcquireTimeoutError)) throw error
    return undefined
  })
}

function holdfast(title: string, driver: (at: At) => DriverFactory): SharedWay {
  return {
    title,
    open: (at, recorder) => toMutex(recordLocks(createLocks(driver(at)), recorder)),
  }
}

/** The servers of the lab tick every 500 ms. */
const createZookeeper = (at: At, more: Partial<ZookeeperOptions> = {}): DriverFactory =>
  zookeeper({
    servers: at.address,
    chroot: `/${at.room}`,
    sessionTimeout: at.session ?? maxTtl,
    tickTime: 500,
    ...more,
  } as ZookeeperOptions)

export const holdfastZookeeper: SharedWay = holdfast('holdfast/zookeeper', (at) => createZookeeper(at))
export const simpleZookeeper: SharedWay = holdfast('one node that all watch', (at) =>
  createZookeeper(at, { strategy: 'simple' }),
)

const createEtcd = ({ address, room }: At): DriverFactory => etcd({ endpoints: address, prefix: `${room}/` })

export const holdfastEtcd: SharedWay = holdfast('holdfast/etcd', createEtcd)

/** The elected leader holds the lock of the election. */
export const electionEtcd: SharedWay = {
  title: 'holdfast/etcd, election',
  open(at, recorder) {
    const locks = createLocks(etcd({ endpoints: at.address, prefix: `${at.room}/` }))
    return {
      take: async (name, ttl, wait) => campaign(locks, recorder, { name, ttl, wait }),
      close: () => locks.close(),
    }
  },
}

interface Campaign {
  readonly name: string
  readonly ttl: number
  readonly wait: number
}

async function campaign(
  locks: Pick<Locks, 'election'>,
  recorder: Recorder,
  { name, ttl, wait }: Campaign,
): Promise<Held | undefined> {
  const about = { name, attempt: `${recorder.client}:term:${name}` }
  recorder.write({ ...about, op: 'acquire', phase: 'invoke', mode: 'exclusive', wait })
  const term = await orTimeout(locks.election(name).campaign(recorder.client, { ttl, wait }))
  if (term === undefined) {
    recorder.write({ ...about, op: 'acquire', phase: 'fail', kind: 'busy' })
    return undefined
  }
  recorder.write({ ...about, op: 'acquire', phase: 'ok', token: term.token })
  term.signal.addEventListener('abort', () => recorder.write({ ...about, op: 'lost', phase: 'info' }))
  return {
    token: term.token,
    get isHeld() {
      return term.isHeld
    },
    release() {
      recorder.write({ ...about, op: 'release', phase: 'invoke' })
      return term.resign()
    },
  }
}

/** No connection is left open behind it. */
const alone = (url: string, init: RequestInit): Promise<Response> =>
  fetch(url, { ...init, headers: { ...init.headers, connection: 'close' } })

function overConsul(title: string, more: Partial<ConsulOptions> = {}): ConsulWay {
  return {
    ...holdfast(title, ({ address, room }) =>
      // The lab's servers accept shorter sessions than Consul's default.
      consul({ url: `http://${address}`, prefix: `${room}/`, minTtl: 1_000, ...more }),
    ),
    async write({ address, room }, value, { token = 0 }) {
      const fence = { name: resource, token }
      const Value = Buffer.from(value).toString('base64')
      const operations = [{ Verb: 'set', Key: `${room}/${resource}`, Value }]
      try {
        await guardedConsulTxn(
          { url: `http://${address}`, send: alone },
          { fence, fenceKey: `${room}/fence`, operations },
        )
        return 'written'
      } catch (error) {
        if (error instanceof StaleTokenError) return 'refused'
        throw error
      }
    },
  }
}

export const holdfastConsul: ConsulWay = overConsul('holdfast/consul')
export const holdfastLockDelay: ConsulWay = overConsul('holdfast/consul, lockDelay', { lockDelay: 2_500 })
