/** Process groups: their members, and how to end them all. */
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { unlessGone } from './proc.js'

const windows = process.platform === 'win32'

/**
 * Sends `signal` to every process of the group at once. A stopped process acts on other signals only once it is continued, so CONT follows SIGTERM.
 * @returns `gone`: there is no such group. `denied`: we may not signal any of its processes (they run as another user).
 */
export function signalGroup(group: number, signal: NodeJS.Signals): 'sent' | 'gone' | 'denied' {
  if (windows) return endTree(group, signal)
  try {
    process.kill(-group, signal)
    if (signal === 'SIGTERM') process.kill(-group, 'SIGCONT')
    return 'sent'
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM' ? 'denied' : 'gone'
  }
}

/** Windows has neither groups nor signals: all one can do is end the tree of a process. */
function endTree(pid: number, signal: NodeJS.Signals): 'sent' | 'gone' {
  if (!['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGKILL'].includes(signal)) return 'sent'
  const { status } = spawnSync('taskkill', ['/PID', `${pid}`, '/T', '/F'], { stdio: 'ignore' })
  return status === 0 ? 'sent' : 'gone'
}

/**
 * Does any process of the group still run? Zombies have ended, but the kernel counts them until their parent reaps them; in a container
 * without an init that never happens. Where /proc cannot be read, as when no file descriptor is left, the kernel's count stands.
 */
export function groupAlive(group: number): boolean {
  try {
    process.kill(windows ? group : -group, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
  if (process.platform !== 'linux') return true
  try {
    return listMembers(group).length > 0
  } catch {
    return true
  }
}

/** Kills the group; resolves once it is gone. Waits, intentionally, for one that cannot be killed (stuck in the kernel). */
export async function endGroup(group: number): Promise<void> {
  while (signalGroup(group, 'SIGKILL') === 'sent' && groupAlive(group)) {
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

/** Process ids in the group, from /proc (Linux; elsewhere empty), without zombies. @throws as fs does: the group is unknown */
export function listMembers(group: number): number[] {
  const pids = process.platform === 'linux' ? readdirSync('/proc').filter((name) => /^\d+$/.test(name)) : []
  return pids.map(Number).filter((pid) => {
    const [state, , itsGroup] = readStat(pid)
    return Number(itsGroup) === group && (state !== 'Z' || hasThreads(pid)) && state !== 'X'
  })
}

/** A system with `hidepid` shows nothing of other users' processes; nor could we signal them. */
const hidden = ['EACCES', 'EPERM']

/** State, parent and group; empty if the process is gone or hidden. */
function readStat(pid: number): string[] {
  const stat = unlessGone(() => readFileSync(`/proc/${pid}/stat`, 'utf8'), hidden)
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ', 3) ?? []
}

/** A process whose first thread has ended shows as a zombie while its other threads run. @throws as fs does: this is unknown */
export function hasThreads(pid: number): boolean {
  return (unlessGone(() => readdirSync(`/proc/${pid}/task`)) ?? []).length > 1
}
