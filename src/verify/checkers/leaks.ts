import type { Event } from '../event.js'
import type { Acquisition, History } from '../history.js'
import { type Violation, violation } from '../violation.js'

/**
 * At the end everything is free: every lease was released, lost, or its process died; and if the store was inspected (`standing` events),
 * its last reply for each name lists neither holders nor waiters.
 */
export function leaks(history: History): Violation[] {
  const found = history.acquisitions.filter(stillOpen).map((one) => {
    const message = `${JSON.stringify(one.name)}: token ${one.token} was neither released nor lost`
    return violation(history, { rule: 'leaks', name: one.name, message, at: history.end, parties: [one] })
  })
  const standings = new Map<string, Event>()
  for (const event of history.events) {
    if (event.op === 'standing' && event.name !== undefined) standings.set(event.name, event)
  }
  for (const [name, { t, holders = 0, waiters = 0 }] of standings) {
    if (holders === 0 && waiters === 0) continue
    const message = `${JSON.stringify(name)}: at the end the store still has ${holders} holders and ${waiters} waiters`
    found.push(violation(history, { rule: 'leaks', name, message, at: t, parties: [] }))
  }
  return found
}

function stillOpen(one: Acquisition): boolean {
  return (
    one.granted !== undefined &&
    one.releasing === undefined &&
    one.lost === undefined &&
    one.died === undefined
  )
}
