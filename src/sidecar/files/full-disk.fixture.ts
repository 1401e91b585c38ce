/** Uploads to a folder on a disk that is too small, and prints the response and what is left there. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '../../lib/clock.ts'
import { Served } from '../network/served.fixture.ts'
import { fileRoutes } from './routes.ts'

const folder = process.argv[2]!
const served = new Served(fileRoutes({ workspace: folder, clock: systemClock }))
const upload = { path: join(folder, 'a'), upload: 'u', size: 200_000, offset: 0 }
const put = await served.ask('PUT', '/files/content', upload, Buffer.alloc(200_000))
const after = await served.ask('GET', '/files/upload', { upload: 'u' })
process.stdout.write(
  JSON.stringify({
    status: put.status,
    code: (JSON.parse(put.body.toString()) as { code: string }).code,
    left: readdirSync(folder),
    after: after.status,
    faults: served.faults,
  }),
)
process.exit(0)
