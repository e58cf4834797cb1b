"""Chromium on the page, as on a phone and by keyboard."""

import os
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from .server import MODEL


def run(server):
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        drive(driver, server)
    finally:
        driver.quit()


def drive(driver, server):
    screenshots = Path(os.environ.get("SCREENSHOTS", server.home))
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    )
    driver.get(server.url)
    wait = WebDriverWait(driver, 120)
    find = lambda name: driver.find_element(By.ID, name)
    results = lambda: driver.find_elements(By.CSS_SELECTOR, "#results img")
    wait.until(lambda _: find("model").get_attribute("value"))
    check_width(driver)
    Select(find("model")).select_by_value(MODEL)

    # By keyboard alone.
    before = newest(driver)
    find("prompt").send_keys("a red boat" + Keys.CONTROL + Keys.ENTER)
    wait.until(lambda _: newest(driver) != before)
    check_width(driver)
    first = results()[0]
    wait.until(lambda _: driver.execute_script("return arguments[0].naturalWidth", first) > 0)
    first.find_element(By.XPATH, "..").send_keys(Keys.ENTER)
    wait.until(lambda _: driver.execute_script(
        "const video = document.querySelector('#viewer video'); return video && video.currentTime > 0.2"
    ))
    driver.save_screenshot(str(screenshots / "page-video.png"))
    find("viewer-again").click()
    assert find("prompt").get_attribute("value") == "a red boat"

    # From an image of the phone.
    image = server.home / "photo.png"
    Image.effect_noise((64, 64), 80).convert("RGB").save(image)
    find("image").send_keys(str(image))
    wait.until(lambda _: find("image-chosen").is_displayed())
    before = newest(driver)
    find("generate").click()
    wait.until(lambda _: newest(driver) != before)
    job = server.call("/api/jobs")[1]["jobs"][0]
    assert job["status"] == "finished", job
    driver.save_screenshot(str(screenshots / "page-results.png"))

    # The results of before are there in a new page.
    driver.get(server.url)
    wait.until(lambda _: len(results()) >= 2)

    driver.get(f"{server.url}/docs")
    wait.until(lambda _: len(driver.find_elements(By.TAG_NAME, "details")) > 30)
    check_width(driver)
    for one in driver.find_elements(By.CSS_SELECTOR, "details summary")[:3]:
        one.click()
    driver.save_screenshot(str(screenshots / "docs.png"))
    loaded = driver.execute_script("return performance.getEntriesByType('resource').map((one) => one.name)")
    assert all(name.startswith(server.url) or name.startswith("data:") for name in loaded), loaded
    faults = [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert not faults, faults


def newest(driver):
    rows = driver.find_elements(By.CSS_SELECTOR, "#results li")
    return driver.execute_script("return arguments[0].dataset.key", rows[0]) if rows else None


def check_width(driver):
    width = driver.execute_script("return document.documentElement.scrollWidth")
    assert width <= 360, f"the page is {width} pixels wide"
