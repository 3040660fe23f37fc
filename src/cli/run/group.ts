/** Process groups: their members, and how to end them all. */
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

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
 * without an init that never happens.
 */
export function groupAlive(group: number): boolean {
  try {
    process.kill(windows ? group : -group, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
  return process.platform !== 'linux' || listMembers(group).length > 0
}

/** Kills the group; resolves once it is gone. Waits, intentionally, for one that cannot be killed (stuck in the kernel). */
export async function endGroup(group: number): Promise<void> {
  while (signalGroup(group, 'SIGKILL') === 'sent' && groupAlive(group)) {
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

/** Process ids in the group, from /proc (Linux; elsewhere empty), without zombies. */
export function listMembers(group: number): number[] {
  const pids = process.platform === 'linux' ? readdirSync('/proc').filter((name) => /^\d+$/.test(name)) : []
  return pids.map(Number).filter((pid) => {
    const [state, , itsGroup] = readStat(pid)
    return Number(itsGroup) === group && (state !== 'Z' || hasThreads(pid)) && state !== 'X'
  })
}

/** State, parent and group; empty if the process is gone. */
function readStat(pid: number): string[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ', 3)
  } catch {
    return []
  }
}

/** A process whose first thread has ended shows as a zombie while its other threads run. */
export function hasThreads(pid: number): boolean {
  try {
    return readdirSync(`/proc/${pid}/task`).length > 1
  } catch {
    return false
  }
}
