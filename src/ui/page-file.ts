/**
 * The files that the page is made of. The package has another module in this one's place, which contains them (see scripts/bundle.ts): a
 * bundler of the application would neither find nor copy files that are read by their path.
 */
import { readFileSync } from 'node:fs'

const known = new Map<string, Uint8Array<ArrayBuffer>>()

/** @param name for example `page.js` */
export function pageFile(name: string): Uint8Array<ArrayBuffer> {
  const found = known.get(name) ?? new Uint8Array(readFileSync(new URL(`./page/${name}`, import.meta.url)))
  known.set(name, found)
  return found
}
