/**
 * Finds the owner of an abstract socket name. Any process on the machine may bind one, and the kernel keeps a listener's user to
 * itself. Visible are the sockets that have the name (/proc/net/unix), and which of them our own processes have (/proc/<pid>/fd).
 * A name is therefore a stranger's when it is bound and no process of our user has a socket with that name.
 *
 * The result is `foreign` only where this is certain, because it may lead to a second broker: every process of the machine must be
 * visible, and so must the sockets of each process of our user that could run a broker.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { displayAddress } from './address.js'
import { pidNamespace } from './processes.js'

export type SocketHolder =
  | { readonly is: 'nobody' }
  /** A process of our user, or perhaps one. */
  | { readonly is: 'ours' | 'unclear'; readonly who: string }
  | { readonly is: 'foreign'; readonly who: string }

/** The initial pid namespace, which contains every process of the machine; its number is fixed in the kernel. */
const firstSpace = 'pid:[4026531836]'
/** A broker runs in a thread beside the main one, and Node has its own threads. Agents that hide their sockets have one or two. */
const minThreads = 3
const stream = '0001'
const unconnected = '01'
const listening = 0x10000
const maxReads = 5

/** @throws as fs does, when the system does not show the owner */
export function findSocketHolder(address: string): SocketHolder {
  const sockets = parseSockets(displayAddress(address))
  if (sockets.size === 0) return { is: 'nobody' }
  const us = process.getuid?.()
  let hidden: number | undefined
  let stranger = 'a process that is not shown to this user'
  for (const pid of readdirSync('/proc')) {
    // The first process of the machine may hide its sockets, and never runs a broker.
    const process = /^\d+$/.test(pid) && pid !== '1' ? readStatus(pid) : undefined
    if (process === undefined) continue
    const ours = process.uids.some((uid) => uid === us)
    const has = hasOne(pid, sockets)
    if (has && ours) return { is: 'ours', who: `process ${pid} of this user` }
    if (has) stranger = `process ${pid} of uid ${process.uids[0]}`
    if (has === undefined && ours && process.threads >= minThreads) hidden = Number(pid)
  }
  if (hidden !== undefined) {
    return {
      is: 'unclear',
      who: `a process that cannot be told from process ${hidden} of this user, whose sockets are hidden`,
    }
  }
  if (!canReadAll()) return { is: 'unclear', who: 'a process that cannot be seen from here' }
  return { is: 'foreign', who: stranger }
}

/**
 * The inodes of all stream sockets with a name: the bound one, and those it has accepted, which outlive it. The list is not a
 * snapshot: a row may be missing when others go at that moment. A row that is certainly bound settles the question, because there
 * is only one; without it the list is read again.
 */
function parseSockets(shown: string): Set<string> {
  const inodes = new Set<string>()
  for (let reads = 0, bound = false; reads < maxReads && !bound; reads++) {
    for (const line of readFileSync('/proc/net/unix', 'latin1').split('\n')) {
      if (!line.includes(shown)) continue
      const [, , , flags = '', type, state, inode, path = ''] = line.split(/ +/)
      // The padding zeros of the name are shown as further @ signs.
      if (type !== stream || inode === undefined || path.replace(/@+$/, '') !== shown) continue
      inodes.add(inode)
      bound ||= state === unconnected || (Number.parseInt(flags, 16) & listening) !== 0
    }
  }
  return inodes
}

/** @returns undefined when the process has ended; a process whose status is hidden counts as one of ours */
function readStatus(
  pid: string,
): { readonly uids: readonly (number | undefined)[]; readonly threads: number } | undefined {
  try {
    const text = readIfAllowed(() => readFileSync(`/proc/${pid}/status`, 'latin1'))
    if (text === undefined) return undefined
    const uids = /^Uid:\s+(.*)$/m.exec(text)?.[1]?.split(/\s+/).map(Number) ?? []
    return { uids, threads: Number(/^Threads:\s+(\d+)$/m.exec(text)?.[1] ?? minThreads) }
  } catch {
    return { uids: [process.getuid?.()], threads: minThreads }
  }
}

/** @returns undefined when the process's files are hidden */
function hasOne(pid: string, sockets: ReadonlySet<string>): boolean | undefined {
  try {
    const files = readIfAllowed(() => readdirSync(`/proc/${pid}/fd`)) ?? []
    return files.some((file) => {
      const link = readIfAllowed(() => readlinkSync(`/proc/${pid}/fd/${file}`))
      return sockets.has(/^socket:\[(\d+)\]$/.exec(link ?? '')?.[1] ?? '')
    })
  } catch {
    return undefined
  }
}

/** @returns undefined when the process or the file is gone by now @throws when it may not be read */
function readIfAllowed<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ESRCH') return undefined
    throw error
  }
}

function canReadAll(): boolean {
  const hides = /^\S+ \/proc proc \S*hidepid=(?!0|off)/m
  return pidNamespace() === firstSpace && !hides.test(readFileSync('/proc/self/mounts', 'latin1'))
}
