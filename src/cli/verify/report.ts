/** The findings, as a page for a review and as data. */

import type { Check } from '../setup/check.js'
import type { FaultResult } from './faults.js'
import type { SuiteResult } from './suite.js'

export interface VerifyReport {
  /** Without password. */
  readonly url: string
  readonly driver: string
  readonly holdfast: string
  readonly node: string
  readonly at: string
  readonly setup: readonly Check[]
  readonly suite: SuiteResult
  readonly faults: FaultResult
}

export function toVerdict({ setup, suite, faults }: VerifyReport): 'sound' | 'weak' | 'unsound' {
  const broken = suite.failed.length + faults.violations.length + faults.complaints.length > 0
  if (broken || setup.some(({ verdict }) => verdict === 'bad')) return 'unsound'
  return setup.some(({ verdict }) => verdict === 'weak') ? 'weak' : 'sound'
}

const meaning = {
  sound: 'Nothing was found that speaks against using this store for locks.',
  weak: 'Locks behaved; the set-up leaves promises resting on something that may fail, see below.',
  unsound: 'Do not rely on locks in this store before what is marked below is put right.',
}

export function markdown(report: VerifyReport): string {
  const { url, driver, holdfast, node, at, setup, suite, faults } = report
  const verdict = toVerdict(report)
  const { starved } = faults
  const lines = [
    `# Locks on ${url}: ${verdict}`,
    '',
    meaning[verdict],
    '',
    `holdfast ${holdfast}, driver ${driver}, Node ${node}, ${at}.`,
    '',
    '## Set-up',
    '',
    '| | verdict | found | remedy |',
    '|---|---|---|---|',
    ...setup.map(
      ({ what, verdict, found, means, remedy = '' }) =>
        `| ${what} | ${verdict} | ${found}${means === undefined ? '' : `: ${means}`} | ${remedy} |`,
    ),
    '',
    '## Conformance',
    '',
    `${suite.passed} tests passed, ${suite.failed.length} failed, in ${suite.seconds.toFixed(0)} s${suite.only.length > 0 ? `; only those with ${suite.only.join(' or ')} in their names were run` : ''}.`,
    ...suite.failed.flatMap(({ test, why }) => ['', `- **${test}**: ${why.split('\n')[0]}`]),
    '',
    '## Under faults',
    '',
    `${faults.acquisitions} acquisitions asked for and ${faults.granted} granted in ${faults.seconds} s by four processes and by \`holdfast run\`, which ran ${faults.commands} commands; ${faults.lost} leases were reported as lost.`,
    `Done to them: ${Object.entries(faults.faults)
      .map(([kind, count]) => `${count} × ${kind}`)
      .join(', ')}.`,
    '',
    `**${faults.violations.length} violations** of exclusion, permits, read/write, token order, false busy, liveness and leaks.`,
    ...(starved.ms < 1_000
      ? []
      : [
          '',
          `The machine left some of these processes without a processor for ${(starved.ms / 1_000).toFixed(1)} s. ${starved.waits.length} waits ended late because of that, and are no violations.`,
        ]),
    ...faults.complaints.map((complaint) => `\n- ${complaint}`),
    ...faults.violations.slice(0, 5).flatMap(({ story }) => ['', '```', story, '```']),
    '',
    '## What this does not show',
    '',
    'The store itself was not stopped, filled, cut off or failed over: that is done on servers of your own by the fault lab of holdfast.',
    'A short clean run is evidence, not proof.',
  ]
  return `${lines.join('\n')}\n`
}
