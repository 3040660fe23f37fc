/** Advice as a page for a terminal. */
import type { Advice } from './decide.js'
import type { Option } from './options.js'

export function formatAdvice(advice: Advice): string {
  const { driver, toStart, why, options, lock, guard, weak, instead, pages, code, check } = advice
  return [
    `Use the driver ${driver}${toStart ? ', on a store that you start for it' : ''}.`,
    ...section('Why', why),
    ...section('Options', [
      ...options.map((one) => formatOption(`${driver}()`, one)),
      ...lock.map((one) => formatOption('the lock', one)),
    ]),
    ...section(`Guard: ${needed[guard.needed]}`, [guard.how, guard.why]),
    ...section('Weak points', weak),
    ...section('Instead', instead),
    ...section('Read', pages),
    ...section('Then look at the store', [check]),
    '',
    ...code.split('\n').map((one) => (one === '' ? '' : `    ${one}`)),
  ].join('\n')
}

const needed = { no: 'not needed', advised: 'advised', required: 'required' } as const

function formatOption(of: string, { name, value, why }: Option): string {
  return `${name}: ${typeof value === 'string' ? `'${value}'` : value} for ${of}: ${why}`
}

function section(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : ['', title, ...lines.map((line) => `  - ${line}`)]
}
