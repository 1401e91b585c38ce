/** The thread that scans the bodies of one sandbox. It has no secret, and its parent terminates it at a deadline. */
import { constants, setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { type ScanAnswer, type ScanJob, scanBody } from './body-scan.ts'

const port = parentPort!
// On Linux, this applies to this thread only: on a busy machine, the supervisor and other sandboxes take priority.
if (process.platform === 'linux') setPriority(constants.priority.PRIORITY_LOW)

port.on('message', ({ memory, length, ...terms }: ScanJob) => {
  const scanned = scanBody(Buffer.from(memory, 0, length), terms)
  if (typeof scanned === 'string') {
    port.postMessage({ fault: scanned } satisfies ScanAnswer)
    return
  }
  const { bytes, members } = scanned
  const unpacked = terms.coding === 'identity' ? undefined : ownMemory(bytes)
  port.postMessage({ members, unpacked } satisfies ScanAnswer, unpacked && [unpacked])
})

/** Returns memory with exactly these bytes, which can be transferred to the other thread. */
function ownMemory(bytes: Buffer): ArrayBuffer {
  const { buffer, byteLength } = bytes
  return (byteLength === buffer.byteLength ? buffer : new Uint8Array(bytes).buffer) as ArrayBuffer
}
