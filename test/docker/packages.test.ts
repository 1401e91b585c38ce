/** npm and pip in a container of Craik's own image, with the granted egress. */
import { describe } from 'vitest'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { installsPackages } from '../gateway/packages.ts'
import { ROOT_IS_NEEDED } from '../sandbox-home.ts'

const isNeeded = ENGINE_IS_NEEDED ?? ROOT_IS_NEEDED

describe.skipIf(isNeeded !== undefined)(isNeeded ?? 'in a container', () => installsPackages('docker'))
