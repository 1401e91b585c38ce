/** Before each test file, also where several share their modules: what it makes is removed after its last test. */
import { afterAll } from 'vitest'
import { removeTempFolders } from './temp-folder.ts'

afterAll(removeTempFolders)
