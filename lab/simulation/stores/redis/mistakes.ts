/** Scripts with one mistake each, which a run over the simulated Redis must catch. */
import type { ScriptMistake } from './store.js'

export const scriptMistakes: readonly ScriptMistake[] = [
  {
    is: 'lets anybody release',
    breaks: ['exclusion'],
    instead: [
      ['if o == id and tonumber(e) > wall', "if o and o ~= '-' and tonumber(e) > wall"],
      ['and last >= tonumber(t) and last <= t + ARGV[3]', ''],
    ],
  },
  {
    is: 'trusts a server that has forgotten everything',
    breaks: ['exclusion', 'read-write', 'permits'],
    instead: [['if lost then standing =', 'if false then standing =']],
  },
  {
    is: 'believes a newcomer who says that it is a new one',
    breaks: ['exclusion', 'read-write', 'permits'],
    instead: [
      ["local stranger = known ~= '-' and known ~= lineage", 'local stranger = false'],
      ["elseif strict and marker ~= 'new' then", 'elseif false then'],
    ],
  },
  {
    is: 'takes data that were deleted for data that never were',
    breaks: ['exclusion', 'read-write', 'permits'],
    instead: [["'flushall', 'flushdb', 'swapdb', 'debug', 'config|resetstat'", '']],
  },
  {
    is: 'lets two writers in',
    breaks: ['exclusion', 'read-write'],
    instead: [
      ["if kind == 'x' or kind ~= m then return false end", "if kind == 'x' then return true end"],
      ["if till == 0 and S.m ~= 'x' then advance", 'if till == 0 then advance'],
    ],
  },
  {
    is: 'lets leases run out early',
    breaks: ['exclusion', 'read-write', 'permits'],
    instead: [
      ['wall + ARGV[i + 2]', 'wall + math.floor(ARGV[i + 2] / 2)'],
      ['wall + ttl', 'wall + math.floor(ttl / 2)'],
    ],
  },
]
