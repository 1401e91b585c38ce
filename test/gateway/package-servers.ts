/** An npm registry and a PyPI index with one package each, in the formats that npm and pip read. */
import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { crc32, gzipSync } from 'node:zlib'
import { pack } from 'tar-stream'

/** The hosts that npm and pip use by default. */
export const PACKAGE_HOSTS = ['registry.npmjs.org', 'pypi.org', 'files.pythonhosted.org'] as const

const PROGRAM = '#!/usr/bin/env node\nconsole.log(require("..")("craik", 8))\n'
const LIBRARY = 'module.exports = (text, width) => text.padStart(width)\n'
const WHEEL = 'leftpad-1.0-py3-none-any.whl'

export type ServePackages = (request: IncomingMessage, response: ServerResponse) => void

export async function packageServers(): Promise<ServePackages> {
  const tarball = await npmTarball()
  const wheel = pythonWheel()
  const manifest = {
    name: 'left-pad',
    version: '1.3.0',
    main: 'index.js',
    bin: { 'left-pad': 'bin/left-pad.js' },
    dist: {
      tarball: 'https://registry.npmjs.org/left-pad/-/left-pad-1.3.0.tgz',
      shasum: createHash('sha1').update(tarball).digest('hex'),
      integrity: `sha512-${createHash('sha512').update(tarball).digest('base64')}`,
    },
  }
  const packument = { name: 'left-pad', 'dist-tags': { latest: '1.3.0' }, versions: { '1.3.0': manifest } }
  const digest = createHash('sha256').update(wheel).digest('hex')
  const at = `https://files.pythonhosted.org/packages/${WHEEL}#sha256=${digest}`
  const index = `<!DOCTYPE html><html><body><a href="${at}">${WHEEL}</a></body></html>`
  const found: Readonly<Record<string, readonly [type: string, body: string | Buffer]>> = {
    'registry.npmjs.org/left-pad': ['application/json', JSON.stringify(packument)],
    'registry.npmjs.org/left-pad/-/left-pad-1.3.0.tgz': ['application/octet-stream', tarball],
    'pypi.org/simple/leftpad/': ['text/html', index],
    [`files.pythonhosted.org/packages/${WHEEL}`]: ['application/octet-stream', wheel],
  }
  return (request, response) => {
    const answer = found[`${request.headers.host}${request.url}`]
    if (answer === undefined) return response.writeHead(404, { 'content-type': 'text/plain' }).end('none\n')
    const [type, body] = answer
    return response
      .writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(body) })
      .end(body)
  }
}

async function npmTarball(): Promise<Buffer> {
  const archive = pack()
  const manifest = { name: 'left-pad', version: '1.3.0', bin: { 'left-pad': 'bin/left-pad.js' } }
  archive.entry({ name: 'package/package.json' }, JSON.stringify(manifest))
  archive.entry({ name: 'package/index.js' }, LIBRARY)
  archive.entry({ name: 'package/bin/left-pad.js', mode: 0o755 }, PROGRAM)
  archive.finalize()
  const chunks: Buffer[] = []
  for await (const chunk of archive) chunks.push(chunk as Buffer)
  return gzipSync(Buffer.concat(chunks))
}

function pythonWheel(): Buffer {
  const info = 'leftpad-1.0.dist-info'
  const files = {
    'leftpad/__init__.py': 'def main():\n    print("craik".rjust(8))\n',
    [`${info}/METADATA`]: 'Metadata-Version: 2.1\nName: leftpad\nVersion: 1.0\n',
    [`${info}/WHEEL`]: 'Wheel-Version: 1.0\nGenerator: craik\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
    [`${info}/entry_points.txt`]: '[console_scripts]\nleft-pad-py = leftpad:main\n',
  }
  const record = [...Object.keys(files), `${info}/RECORD`].map((name) => `${name},,\n`).join('')
  return zipOf({ ...files, [`${info}/RECORD`]: record })
}

/** Stores the files without compression. */
function zipOf(files: Readonly<Record<string, string>>): Buffer {
  const [local, central]: [Buffer[], Buffer[]] = [[], []]
  let offset = 0
  for (const [path, text] of Object.entries(files)) {
    const [name, content] = [Buffer.from(path), Buffer.from(text)]
    const common = Buffer.alloc(26)
    common.writeUInt16LE(20, 0)
    common.writeUInt16LE(0x21, 8)
    common.writeUInt32LE(crc32(content), 10)
    common.writeUInt32LE(content.length, 14)
    common.writeUInt32LE(content.length, 18)
    common.writeUInt16LE(name.length, 22)
    const entry = Buffer.concat([Buffer.from('PK\x03\x04', 'latin1'), common, name, content])
    const ending = Buffer.alloc(14)
    ending.writeUInt32LE(offset, 10)
    central.push(Buffer.from('PK\x01\x02\x14\x00', 'latin1'), common, ending, name)
    local.push(entry)
    offset += entry.length
  }
  const directory = Buffer.concat(central)
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06', 'latin1')
  end.writeUInt16LE(Object.keys(files).length, 8)
  end.writeUInt16LE(Object.keys(files).length, 10)
  end.writeUInt32LE(directory.length, 12)
  end.writeUInt32LE(offset, 16)
  return Buffer.concat([...local, directory, end])
}
