/** Help for each command beyond its options: examples, exit codes, environment. */
import { exits } from '../exit.js'

type Rows = readonly (readonly [term: string, what: string])[]

export interface Page {
  /** Command lines and what they do. */
  readonly examples: Rows
  /** Codes and their meaning; they add to those of every command, and override them. */
  readonly exits?: Rows
  /** Variables and what they do. */
  readonly environment?: Rows
}

/** Codes that any command may return. */
const everyExit: Rows = [
  ['0', 'it went well'],
  [`${exits.badInput}`, 'an option, name, duration or URL makes no sense; nothing was done'],
  [`${exits.unavailable}`, 'the store cannot be used'],
  [`${exits.internal}`, 'a fault of holdfast itself'],
  [`${exits.output}`, 'the standard output cannot be written'],
]

const runExits: Rows = [
  ['0', "the command's own code, whatever it is; 128 + n when signal n ended it"],
  [
    `${exits.conflict}`,
    'the lock was not free in time; the command was not started (-E chooses another code)',
  ],
  [`${exits.lost}`, 'the lease was lost; the command was stopped'],
  [`${exits.maxHold}`, '--max-hold was over; the command was stopped'],
  [`${exits.notExecutable}`, 'the command cannot be executed'],
  [`${exits.notFound}`, 'there is no such command'],
]

const storeVariables: Rows = [
  ['HOLDFAST_URL', 'the store, where there is no --on: a URL, or a name in holdfast.json'],
  ['NO_COLOR', 'set: no bold type in tables and help'],
]

const failed = (what: string): Rows => [[`${exits.failed}`, what]]

export const pages: Readonly<Record<string, Page>> = {
  run: {
    examples: [
      ['holdfast run deploy -- make deploy', 'one deployment at a time'],
      ['holdfast run deploy --wait 10m --note v2.3 -- make deploy', 'wait longer; tell others what for'],
      [
        'holdfast run "job:$(date +%F)" --no-wait -q -E 0 --min-hold 1d -- ./job',
        'once a night, from the crontabs of many hosts (write \\% there)',
      ],
      ['holdfast run account:7 account:42 -- ./transfer.sh', 'both locks or none'],
      ['holdfast run downloads --permits 1/3 -- curl -O URL', 'three at a time'],
      ['holdfast run report --shared -- ./read.sh', 'beside other readers'],
      ['holdfast run deploy --on redis://10.0.0.5 -- ./deploy.sh', 'across machines'],
    ],
    exits: runExits,
    environment: [
      ...storeVariables,
      ['HOLDFAST_NAME, HOLDFAST_TOKEN', 'set for the command: the lock and its token (one lock only)'],
      ['HOLDFAST_NAMES, HOLDFAST_TOKENS', 'set for the command: those of all locks, one a line'],
    ],
  },
  hold: {
    examples: [
      ['token=$(holdfast hold deploy --for $$) || exit', 'from here on …'],
      ['holdfast release deploy --token "$token"', '… to here'],
      [
        'holdfast hold deploy --for $$ --no-wait > /dev/null || exit 0',
        'until the script ends; not if it runs elsewhere',
      ],
    ],
    exits: [
      [`${exits.conflict}`, 'the lock was not free in time (-E chooses another code)'],
      [`${exits.lost}`, 'the lease was lost before it could be used'],
    ],
    environment: [
      ...storeVariables,
      ['HOLDFAST_DIR', 'where holdfast release finds the process that holds the lock; the same for both'],
    ],
  },
  ls: {
    examples: [
      ['holdfast ls', 'all locks that are held or waited for'],
      ['holdfast ls account: --json', 'those whose names begin so, as JSON'],
    ],
    environment: storeVariables,
  },
  inspect: {
    examples: [['holdfast inspect deploy', 'who holds it, who waits']],
    environment: storeVariables,
  },
  top: {
    examples: [
      ['holdfast top', 'the names with the most waiters first; ? shows the keys'],
      ['holdfast top account: --sort held --every 5s', 'some names, the longest held first'],
      ['holdfast top --once --json', 'one list, for a script'],
    ],
    environment: storeVariables,
  },
  release: {
    examples: [
      ['holdfast release deploy', 'asks first'],
      ['holdfast release deploy --yes', 'in a script'],
      ['holdfast release deploy --token "$token"', 'ends a holdfast hold'],
    ],
    exits: [
      ...failed('nobody held the lock, or the answer was no'),
      [`${exits.lost}`, 'with --token: the lease was lost before'],
    ],
    environment: storeVariables,
  },
  ui: {
    examples: [
      ['holdfast ui --on redis://10.0.0.5', 'then open the address it prints'],
      ['holdfast ui --on redis://a --on postgres://b/app', 'side by side'],
      ['holdfast ui --allow-release', 'locks can be taken from their holders'],
      ['holdfast ui --listen 0.0.0.0 --host-name ops1', 'for other machines; asks for a token'],
    ],
    exits: failed('the port cannot be listened on'),
    environment: [
      ...storeVariables,
      ['HOLDFAST_UI_TOKEN', 'the token that browsers must bring (default: a new one, where one is needed)'],
    ],
  },
  schema: {
    examples: [
      ['holdfast schema --on postgres://localhost/app --role app | psql app', 'make what the driver needs'],
    ],
    environment: storeVariables,
  },
  verify: {
    examples: [['holdfast verify --on redis://10.0.0.5 --minutes 5 --out review/', 'a report for a review']],
    exits: failed('the report says unsound'),
    environment: storeVariables,
  },
  doctor: {
    examples: [
      ['holdfast doctor --on redis://10.0.0.5', 'what was found, and what it means for locks'],
      ['holdfast doctor --on "postgres://app@db/shop?tls=true"', 'the password from PGPASSWORD'],
      ['holdfast doctor --strict --on "$STORE" && ./deploy.sh', 'in CI: warnings stop it, too'],
      ['holdfast doctor --json | jq \'.findings[] | select(.level != "ok")\'', 'only what is to be done'],
    ],
    exits: [
      ...failed('a problem was found'),
      [`${exits.warned}`, 'there are only warnings (with --strict)'],
      [`${exits.unavailable}`, 'the store cannot be reached, or refuses the login'],
    ],
    environment: storeVariables,
  },
  advise: {
    examples: [
      ['holdfast advise', 'asks five questions'],
      ['holdfast advise --machines many --run redis,postgres', 'asks the other three'],
    ],
  },
  demo: {
    examples: [
      ['holdfast demo', 'with the orders it brings'],
      ['holdfast demo --orders mine.json', 'with yours'],
    ],
    exits: failed('the balances with the lock are not exact'),
  },
  completion: {
    examples: [
      ['source <(holdfast completion bash)', 'in ~/.bashrc'],
      ['source <(holdfast completion zsh)', 'in ~/.zshrc, after compinit'],
      ['holdfast completion fish > ~/.config/fish/completions/holdfast.fish', 'once'],
    ],
  },
  lab: {
    examples: [
      ['holdfast lab --list', 'what there is'],
      ['holdfast lab restart long-pause', 'two scenes'],
    ],
  },
}

/** All codes of a command, in ascending order. */
export function exitCodes(name: string): Rows {
  const codes = new Map([...everyExit, ...(pages[name]?.exits ?? [])])
  // The standard output of `run` belongs to its command; `hold` has its own code for this.
  if (name === 'run' || name === 'hold') codes.delete(`${exits.output}`)
  return [...codes].sort(([a], [b]) => Number(a) - Number(b))
}
