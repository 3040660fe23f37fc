// Imported first by a test file that keeps a processor busy from its beginning to its end and in which nothing depends on
// time: it gets what the others leave. They wait most of the time, and want a processor at once when they do not.
// scripts/test.ts goes by this import, too, and runs such files beside those that wait.
import { constants, setPriority } from 'node:os'

setPriority(constants.priority.PRIORITY_BELOW_NORMAL)
