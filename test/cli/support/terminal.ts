// An interactive shell on a pseudo-terminal, by script(1) of util-linux, for what only a terminal shows.
import { spawn } from 'node:child_process'
import { until } from '../../support/until.js'

export interface Terminal {
  readonly pid: number
  /** All that was shown so far. */
  shown(): string
  /** Types; `\x03` is ^C, `\x1a` ^Z. */
  type(keys: string): void
  /** Waits until `text` was shown after the last thing that was waited for. */
  see(text: string | RegExp, within?: number): Promise<void>
  /** Ends the shell. */
  close(): Promise<void>
}

/** `holdfast` is a command in it. */
export async function terminal(folder: string, env: NodeJS.ProcessEnv, main: string): Promise<Terminal> {
  // A shell in between would drop PS1 from the environment.
  const shell = "env PS1='ready> ' bash --norc --noprofile -i"
  const child = spawn('script', ['-qfec', shell, '/dev/null'], {
    cwd: folder,
    env: { ...env, TERM: 'dumb', HISTFILE: '' },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  // Not 'exit': what was shown last is looked at, too.
  const gone = new Promise<void>((resolve) => child.once('close', () => resolve()))
  let shown = ''
  let from = 0
  child.stdout.setEncoding('utf8').on('data', (text) => (shown += text))
  const self: Terminal = {
    pid: child.pid ?? 0,
    shown: () => shown,
    type: (keys) => void child.stdin.write(keys),
    see: async (text, within = 30_000) => {
      const found = await until(
        () => {
          const rest = shown.slice(from)
          const at = typeof text === 'string' ? rest.indexOf(text) : rest.search(text)
          const length = typeof text === 'string' ? text.length : (text.exec(rest)?.[0].length ?? 0)
          return at >= 0 && from + at + length
        },
        { within, what: `the terminal to show ${text}` },
      ).catch((error: unknown) => {
        throw new Error(`${error}\nit showed:\n${JSON.stringify(shown.slice(from))}`)
      })
      from = found
    },
    close: async () => {
      child.stdin.end('\x03\nexit\nexit\n')
      child.kill('SIGHUP')
      await gone
    },
  }
  await self.see('ready> ')
  self.type('stty cols 120\n')
  await self.see('ready> ')
  self.type(`holdfast() { ${JSON.stringify(process.execPath)} ${JSON.stringify(main)} "$@"; }\n`)
  await self.see('ready> ')
  return self
}
