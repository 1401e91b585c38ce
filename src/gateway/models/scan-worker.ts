/** The thread that reads the bodies of one sandbox. It has no secret, and its starter kills it at a deadline. */
import { constants, setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { movable, type ScanAnswer, type ScanJob, scanBody } from './body-scan.ts'

const port = parentPort!
// On Linux of this thread alone: on a busy machine the supervisor and other sandboxes go first.
if (process.platform === 'linux') setPriority(constants.priority.PRIORITY_LOW)

port.on('message', ({ bytes, ...terms }: ScanJob) => {
  const scanned = scanBody(Buffer.from(bytes), terms)
  if (typeof scanned === 'string') {
    port.postMessage({ fault: scanned } satisfies ScanAnswer)
    return
  }
  const moved = movable(scanned.bytes)
  port.postMessage({ bytes: moved, members: scanned.members } satisfies ScanAnswer, [moved])
})
