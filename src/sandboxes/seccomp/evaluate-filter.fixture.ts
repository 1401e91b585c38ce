/** Simulates the kernel's evaluation of seccomp filters. */

interface Call {
  readonly architecture: number
  readonly number: number
  readonly args?: readonly number[]
}

/** Runs the program over one call and returns its result, as the kernel does. */
export function evaluateFilter(program: Buffer, { architecture, number, args = [] }: Call): number {
  const data = Buffer.alloc(64)
  data.writeUInt32LE(number >>> 0, 0)
  data.writeUInt32LE(architecture >>> 0, 4)
  for (const [i, arg] of args.entries()) data.writeUInt32LE(arg >>> 0, 16 + 8 * i)
  let accumulator = 0
  for (let at = 0; at < program.length / 8; at++) {
    const code = program.readUInt16LE(at * 8)
    const k = program.readUInt32LE(at * 8 + 4)
    const jump = (taken: boolean) => program.readUInt8(at * 8 + (taken ? 2 : 3))
    if (code === 0x06) return k
    else if (code === 0x20) accumulator = data.readUInt32LE(k)
    else if (code === 0x54) accumulator = (accumulator & k) >>> 0
    else if (code === 0x15) at += jump(accumulator === k)
    else if (code === 0x35) at += jump(accumulator >= k)
    else if (code === 0x45) at += jump((accumulator & k) !== 0)
    else throw new Error(`no instruction ${code}`)
  }
  throw new Error('the program has no end')
}
