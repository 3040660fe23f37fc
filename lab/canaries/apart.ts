/**
 * The drivers of the fault lab whose servers can be cut off, with one mistake: a renewal that the store could not execute counts as done if the
 * server itself is up. The `?` of this module's URL is followed by the driver.
 */
import type { DriverFactory } from 'holdfast'
import type { Grant } from 'holdfast/driver'
import { type LabDriver, lab as made } from '../faults/store.js'

const name = new URL(import.meta.url).search.slice(1)
const { lab: sound }: { lab: LabDriver } = await import(`../faults/drivers/${name}.js`)

export const lab: LabDriver = made({
  ...sound,
  about: `${sound.about}; a renewal that the store could not carry out counts`,
  client: async (place) => {
    const client = await sound.client(place)
    return { ...client, driver: trustingParts(client.driver) }
  },
})

const trustingParts =
  (factory: DriverFactory): DriverFactory =>
  (env) => {
    const driver = factory(env)
    const { acquire } = driver
    return {
      ...driver,
      acquire: async (claim, wait) => {
        const grant = await acquire(claim, wait)
        return grant && counting(grant, claim.ttl, env.clock.now)
      },
    }
  }

function counting(grant: Grant, granted: number, now: () => number): Grant {
  /** The ttl requested last: the lease never expires here, even if a stalled process sends its renewals late. */
  let trusted = granted
  // Counts as soon as it is sent. Its reply may take longer than the lease lasts, and the core would not wait for it.
  const renew = async (ttl: number) => {
    trusted = ttl
    grant.renew(ttl, AbortSignal.timeout(ttl)).catch(() => undefined)
    return now() + ttl
  }
  return new Proxy(grant, {
    get: (target, key) => {
      if (key === 'renew') return renew
      if (key === 'validUntil' && target.validUntil > Number.NEGATIVE_INFINITY)
        return Math.max(now() + trusted, target.validUntil)
      const value: unknown = Reflect.get(target, key)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
