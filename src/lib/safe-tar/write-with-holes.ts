/** Writes blocks of zeros as holes, which take no disk space. */
import type { FileHandle } from 'node:fs/promises'

/**
 * The smallest block of a file system on a sandbox disk. Holes are restored exactly to the block. Otherwise a file with
 * a few scattered bytes takes more space than the original, and its content no longer fits on the disk.
 */
const HOLE_BYTES = 1024
const ZEROS = Buffer.alloc(HOLE_BYTES)

/** Leaves out the blocks that are all zeros. The file must be new, and the caller sets its length later. */
export async function writeWithHoles(file: FileHandle, bytes: Buffer, at: number): Promise<void> {
  let begun: number | undefined
  for (let from = 0, end = 0; from < bytes.length; from = end) {
    end = Math.min(bytes.length, from + HOLE_BYTES - ((at + from) % HOLE_BYTES))
    const isHole = bytes.compare(ZEROS, 0, end - from, from, end) === 0
    if (!isHole) begun ??= from
    else if (begun !== undefined) {
      await writeAll(file, bytes.subarray(begun, from), at + begun)
      begun = undefined
    }
  }
  if (begun !== undefined) await writeAll(file, bytes.subarray(begun), at + begun)
}

async function writeAll(file: FileHandle, bytes: Buffer, at: number): Promise<void> {
  for (let done = 0; done < bytes.length; )
    done += (await file.write(bytes, done, bytes.length - done, at + done)).bytesWritten
}
