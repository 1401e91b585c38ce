/**
 * Loaded before each test file, even when several share their modules: removes the file's folders after its last test.
 */
import { afterAll } from 'vitest'
import { removeTempFolders } from './temp-folder.ts'

afterAll(removeTempFolders)
