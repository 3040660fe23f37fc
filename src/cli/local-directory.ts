/** Which directory a `local:` URL means. The driver decides it the same way ([test](../../test/cli/local-place.test.ts)). */
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

/** @param given what follows `local:`; empty: HOLDFAST_DIR, or one directory for each user */
export function localDirectory(given: string): string {
  const configured = given.replace(/^\/\/(?=\/)/, '') || process.env['HOLDFAST_DIR']
  if (configured) return resolve(configured)
  const uid = process.getuid?.()
  return uid === undefined ? join(tmpdir(), 'holdfast-user') : `/tmp/holdfast-${uid}`
}

/** The directory of a `local:` URL; undefined for the URL of any other store. */
export function parseDirectory(url: string): string | undefined {
  const [, rest] = /^local:(.*)$/is.exec(url) ?? []
  return rest === undefined ? undefined : localDirectory(rest)
}
