//! Plans on a device that other programs use too.

use super::{Case, GIB, card};
use crate::memory::DeviceFacts;
use crate::testing::made_up::T2V_1_3B;

#[test]
fn memory_used_by_other_programs_changes_free_memory_but_not_the_estimate() {
    let case = Case::wan(T2V_1_3B, "BF16");
    let request = case.request(832, 480, 17);
    let alone = case.plan(&request, card(24)).verdict;
    let used = DeviceFacts {
        used_bytes: 5 * GIB,
        ..card(24)
    };
    let beside = case.plan(&request, used).verdict;
    assert_eq!(alone.needs_bytes, beside.needs_bytes);
    assert_eq!(alone.of_bytes - beside.of_bytes, 5 * GIB);
    let told = " (other programs use 5.0 GiB)";
    assert!(beside.text.ends_with(told), "{}", beside.text);
    assert!(alone.text.ends_with(" GiB are free"), "{}", alone.text);
}
