/**
 * Where the broker of a directory listens.
 *
 * - `abstract` (Linux): a name in the kernel, derived from the directory's real path. Bound by one at a time, free the moment
 *   its owner is dead, and still there when somebody deletes the directory.
 * - `pipe` (Windows): a named pipe, with the same three properties. libuv asks for the first instance of the pipe, so a
 *   second broker gets EADDRINUSE; the pipe is gone when its last handle is closed, at the latest with its process.
 * - `file` (macOS, containers that share a volume): see `generation.ts`.
 */
import { createHash } from 'node:crypto'
import type { Home } from './home.js'

/** The name to bind and to connect to, or undefined for `file`, whose name changes with each broker. */
export function fixedAddress(
  { directory, socket }: Home,
  purpose: 'broker' | 'election',
): string | undefined {
  if (socket === 'file') return undefined
  const hash = createHash('sha256').update(directory).digest('hex').slice(0, 24)
  const name = `holdfast-${process.getuid?.() ?? 'user'}-${hash}-${purpose}`
  return socket === 'abstract' ? `\0${name}` : `\\\\.\\pipe\\${name}`
}
