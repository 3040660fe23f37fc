/**
 * The address at which the broker of a directory listens.
 *
 * - `abstract` (Linux): a name in the kernel, derived from the real path by which the directory was first used. Only one process can bind it at a time, it is
 *   free the moment its owner is dead, and it survives the deletion of the directory.
 * - `pipe` (Windows): a named pipe, with the same three properties. libuv asks for the first instance of the pipe, so a
 *   second broker gets EADDRINUSE. The pipe is gone when its last handle is closed, at the latest with its process.
 * - `file` (macOS, containers that share a volume): see `file-election.ts`.
 */
import { createHash } from 'node:crypto'
import type { RuntimeDirectory } from './runtime-directory.js'

/**
 * The length of a full name, in bytes. Some versions of Node pad a shorter name with zeros, others do not. To the kernel these are two names,
 * and there would be two brokers.
 */
const wholeName = 108

/** The name to bind and to connect to, or undefined for `file`, whose name changes with each broker. */
export function fixedAddress(
  { path, socket }: RuntimeDirectory,
  purpose: 'broker' | 'election',
): string | undefined {
  if (socket === 'file') return undefined
  const hash = createHash('sha256').update(path).digest('hex').slice(0, 24)
  const name = `holdfast-${process.getuid?.() ?? 'user'}-${hash}-${purpose}`
  return socket === 'abstract' ? `\0${name}`.padEnd(wholeName, '\0') : `\\\\.\\pipe\\${name}`
}

/** The address as `ss` shows it. */
export function displayAddress(address: string): string {
  return address.startsWith('\0') ? `@${address.replaceAll('\0', '')}` : address
}
