/** Locks that end with their connection: what a fault that ends connections excuses, and nothing more. */
import { type Fault, secondHolder } from './store.js'

/** After these kinds the server has released a lock that its holder may still believe to hold, until its socket reports the end. */
const ends =
  /^connections: (?:black hole|requests lost|replies lost|reset|half-closed|refused)|^server: (?:kill|power cut|no connections|closes idle)|^forced release$/

/** @param page the page that says so */
export function endsSessions(fault: Fault, within: number, page: string): Fault {
  if (!ends.test(fault.kind)) return fault
  const why = `the server lets go when a connection ends, and its holder is told when its socket is closed, which is later (${page})`
  return { ...fault, excuses: [{ rules: secondHolder, within, why }] }
}
