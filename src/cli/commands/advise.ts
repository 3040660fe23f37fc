/** `advise`: five questions, then the driver, options and guard to use. Connects to nothing. */
import type { Command } from 'commander'
import { type Answers, questions } from '../advise/answers.js'
import { badInput, CliError } from '../exit.js'
import { json } from '../print.js'

type Flags = { readonly [K in keyof Answers]?: string } & { readonly json?: true }

const names = Object.keys(questions) as (keyof Answers)[]

export function adviseCommandLine(program: Command): void {
  const command = program
    .command('advise')
    .summary('say which driver, options and guard to use')
    .description(
      'Asks five questions on a terminal, and says which driver, options and guard to use, why, and where it is weak. ' +
        'Flags answer the questions without a terminal. Connects to nothing.',
    )
  for (const name of names) {
    const { flag, valueName, about } = questions[name]
    command.option(`${flag} ${valueName}`, about)
  }
  command.option('--json', 'print JSON').action(advise)
}

async function advise(flags: Flags): Promise<void> {
  const given = names.filter((name) => flags[name] !== undefined)
  const known = given.map((name) => [name, questions[name].read(flags[name] ?? '')] as const)
  const missing = names.filter((name) => flags[name] === undefined)
  const asked = missing.length === 0 ? [] : await askMissing(missing)
  const answers = Object.fromEntries([...known, ...asked]) as unknown as Answers
  const [{ decide }, { formatAdvice }] = await Promise.all([
    import('../advise/decide.js'),
    import('../advise/report.js'),
  ])
  const advice = decide(answers)
  console.log(flags.json === true ? json({ answers, ...advice }) : formatAdvice(advice))
}

async function askMissing(missing: readonly (keyof Answers)[]): Promise<[keyof Answers, unknown][]> {
  if (!(process.stdin.isTTY && process.stderr.isTTY)) {
    const flags = missing.map((name) => `${questions[name].flag} ${questions[name].valueName}`)
    throw badInput(`with no terminal to ask on, advise also needs ${flags.join(', ')}`)
  }
  const { createInterface } = await import('node:readline/promises')
  const prompt = createInterface({ input: process.stdin, output: process.stderr })
  // If the input ends, readline never settles its question.
  const ended = new Promise<never>((_, reject) =>
    prompt.once('close', () => reject(badInput('the questions were not answered to the end'))),
  )
  ended.catch(() => undefined)
  try {
    const answers: [keyof Answers, unknown][] = []
    for (const name of missing) answers.push([name, await Promise.race([answer(prompt, name), ended])])
    return answers
  } finally {
    prompt.close()
  }
}

type Prompt = { question(text: string): Promise<string> }

/** Repeats the question until the answer is valid. */
async function answer(prompt: Prompt, name: keyof Answers): Promise<unknown> {
  const { text, read } = questions[name]
  for (;;) {
    try {
      return read((await prompt.question(`${text}\n> `)).trim())
    } catch (error) {
      if (!(error instanceof CliError)) throw error
      console.error(error.message)
    }
  }
}
