/** Reads the cleartext part of a TLS client hello: whether it is TLS, and the server name. */
import type { Duplex } from 'node:stream'

const MAX_HELLO_BYTES = 64 * 1024
const HANDSHAKE = 0x16
const CLIENT_HELLO = 1
const SERVER_NAME = 0

export type ClientHello =
  | { readonly is: 'tls'; readonly name: string | undefined }
  | { readonly is: 'incomplete' }
  | { readonly is: 'other' }

const OTHER: ClientHello = { is: 'other' }
const INCOMPLETE: ClientHello = { is: 'incomplete' }

/** Only inspects the bytes: they are forwarded unchanged. */
export function parseHello(bytes: Buffer): ClientHello {
  const parts: Buffer[] = []
  let at = 0
  let have = 0
  let length: number | undefined
  for (;;) {
    // Joins the records only when the length is known and all bytes have arrived. Joining them for each record would
    // cost quadratic time.
    if (have >= 4 && length === undefined) {
      const begun = Buffer.concat(parts)
      if (begun[0] !== CLIENT_HELLO) return OTHER
      length = begun.readUIntBE(1, 3)
      if (length > MAX_HELLO_BYTES) return OTHER
    }
    if (length !== undefined && have >= 4 + length)
      return helloIn(Buffer.concat(parts).subarray(4, 4 + length))
    if (bytes.length > at && bytes[at] !== HANDSHAKE) return OTHER
    if (bytes.length > at + 1 && bytes[at + 1] !== 3) return OTHER
    if (bytes.length < at + 5) return INCOMPLETE
    const size = bytes.readUInt16BE(at + 3)
    if (size === 0 || size > 16_384) return OTHER
    const part = bytes.subarray(at + 5, at + 5 + size)
    if (part.length < size)
      return have === 0 && part.length > 0 && part[0] !== CLIENT_HELLO ? OTHER : INCOMPLETE
    parts.push(part)
    have += size
    at += 5 + size
  }
}

function helloIn(body: Buffer): ClientHello {
  try {
    let at = 2 + 32
    at += 1 + body.readUInt8(at)
    at += 2 + body.readUInt16BE(at)
    at += 1 + body.readUInt8(at)
    if (at === body.length) return { is: 'tls', name: undefined }
    const end = at + 2 + body.readUInt16BE(at)
    if (end !== body.length) return OTHER
    let name: string | undefined
    for (at += 2; at < end; ) {
      const [type, size] = [body.readUInt16BE(at), body.readUInt16BE(at + 2)]
      if (at + 4 + size > end) return OTHER
      if (type === SERVER_NAME) {
        if (name !== undefined) return OTHER
        name = nameIn(body.subarray(at + 4, at + 4 + size))
        if (name === undefined) return OTHER
      }
      at += 4 + size
    }
    return { is: 'tls', name }
  } catch {
    return OTHER
  }
}

/** Accepts a list of exactly one host name, as every client sends it. */
function nameIn(list: Buffer): string | undefined {
  const isOne = list.length > 5 && list.readUInt16BE(0) === list.length - 2 && list[2] === 0
  return isOne && list.readUInt16BE(3) === list.length - 5 ? list.toString('latin1', 5) : undefined
}

/** Reads until the protocol is clear, and then pauses the stream. */
export function readHello(
  stream: Duplex,
  head: Buffer,
  until: AbortSignal,
): Promise<{ readonly hello: ClientHello; readonly bytes: Buffer }> {
  return new Promise((resolve) => {
    let bytes = head
    const finish = (hello: ClientHello) => {
      stream.off('data', take)
      stream.off('end', giveUp)
      stream.off('close', giveUp)
      until.removeEventListener('abort', giveUp)
      stream.pause()
      resolve({ hello, bytes })
    }
    const giveUp = () => finish(INCOMPLETE)
    const look = () => {
      const hello = parseHello(bytes)
      if (hello.is !== 'incomplete') finish(hello)
      else if (bytes.length > MAX_HELLO_BYTES) finish(OTHER)
      return hello.is !== 'incomplete'
    }
    const take = (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk])
      look()
    }
    if (until.aborted || stream.destroyed) return giveUp()
    if (look()) return
    until.addEventListener('abort', giveUp, { once: true })
    stream.once('end', giveUp)
    stream.once('close', giveUp)
    stream.on('data', take)
  })
}
