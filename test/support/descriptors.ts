// A process that has no file descriptor left to open, with real EMFILE: its limit is set to below what it has open.
import { spawn } from 'node:child_process'
import { once } from 'node:events'

const script = `
  before=$(prlimit --pid "$1" --nofile --output SOFT --noheadings --raw) && prlimit --pid "$1" --nofile=1: || exit
  echo limited
  read -r _
  prlimit --pid "$1" --nofile="$before": 2>/dev/null # It may have ended.
`

/**
 * While `work` runs, everything that the process would open is refused with EMFILE; what is open stays so. It may be this process, which
 * must then start nothing and connect to nothing. Needs Linux.
 */
export async function withoutDescriptors<T>(pid: number, work: () => T | Promise<T>): Promise<T> {
  // A process of its own restores the limit: this one could no longer start any.
  const limiter = spawn('sh', ['-c', script, 'sh', `${pid}`], { stdio: ['pipe', 'pipe', 'inherit'] })
  const exited = once(limiter, 'exit')
  await Promise.race([once(limiter.stdout, 'data'), exited])
  if (limiter.exitCode !== null) throw new Error('prlimit (util-linux) could not set the limit')
  try {
    return await work()
  } finally {
    limiter.stdin.end('\n')
    await exited
  }
}
